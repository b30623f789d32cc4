// The examples of the specification, done with the JavaScript client. Usage: node examples.mjs URL NAME
// Each example throws when the server does not do what the specification says.
import assert from "node:assert/strict";
import { connect, headers, nanos } from "@nats-io/transport-node";
import { AckPolicy, DeliverPolicy, jetstream, jetstreamManager, RetentionPolicy } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { Objm } from "@nats-io/obj";

const text = new TextDecoder();

const examples = {
  async publish_and_duplicates({ js, jsm }) {
    await jsm.streams.add({ name: "ORDERS", subjects: ["ORDERS.*"] });
    const first = await js.publish("ORDERS.new", "hello1", { msgID: "1" });
    const second = await js.publish("ORDERS.new", "hello2", { msgID: "1" });
    assert.deepEqual([first.seq, first.duplicate, second.seq, second.duplicate], [1, false, 1, true]);
    const { state } = await jsm.streams.info("ORDERS");
    assert.deepEqual([state.messages, state.bytes], [1, 78]);
    await assert.rejects(js.publish("ORDERS.new", "x", { expect: { lastSequence: 9 } }), /wrong last sequence: 1/);
    await assert.rejects(js.publish("ORDERS.new", "x", { expect: { streamName: "OTHER" } }), /does not match/);
  },

  async walk_through({ js, jsm }) {
    await jsm.streams.add({ name: "ORDERS", subjects: ["ORDERS.*"] });
    await jsm.consumers.add("ORDERS", {
      durable_name: "DISPATCH",
      ack_policy: AckPolicy.Explicit,
      ack_wait: nanos(500),
      filter_subject: "ORDERS.processed",
    });
    const consumer = await js.consumers.get("ORDERS", "DISPATCH");
    const numbers = async () => {
      const info = await consumer.info();
      return [
        info.delivered.consumer_seq, info.delivered.stream_seq, info.ack_floor.consumer_seq, info.ack_floor.stream_seq,
        info.num_ack_pending, info.num_redelivered,
      ];
    };
    assert.deepEqual(await numbers(), [0, 0, 0, 0, 0, 0]);
    await js.publish("ORDERS.processed", "order 4");
    await (await consumer.next({ expires: 5000 })).ackAck();
    assert.deepEqual(await numbers(), [1, 1, 1, 1, 0, 0]);
    await js.publish("ORDERS.processed", "order 5");
    await consumer.next({ expires: 5000 });
    assert.deepEqual(await numbers(), [2, 2, 1, 1, 1, 0]);
    await consumer.next({ expires: 5000 });
    assert.deepEqual(await numbers(), [3, 2, 1, 1, 1, 1]);
    await (await consumer.next({ expires: 5000 })).ackAck();
    assert.deepEqual(await numbers(), [4, 2, 4, 2, 0, 0]);
  },

  async ack_kinds({ js, jsm }) {
    await jsm.streams.add({ name: "S", subjects: ["s"] });
    for (let i = 0; i < 4; i++) await js.publish("s", `${i}`);
    await jsm.consumers.add("S", { durable_name: "C", ack_policy: AckPolicy.Explicit });
    const consumer = await js.consumers.get("S", "C");
    const messages = [];
    for await (const m of await consumer.fetch({ max_messages: 4, expires: 5000 })) messages.push(m);
    assert.equal(await messages[0].ackAck(), true);
    messages[1].nak();
    messages[2].working();
    messages[3].term("bad order");
    const again = await consumer.next({ expires: 5000 });
    assert.deepEqual([again.string(), again.info.deliveryCount, again.redelivered], ["1", 2, true]);
    await again.ackAck();
    await messages[2].ackAck();
    const info = await consumer.info();
    assert.deepEqual([info.num_ack_pending, info.num_pending], [0, 0]);
  },

  async fetch_and_limits({ js, jsm }) {
    await jsm.streams.add({ name: "S", subjects: ["s"] });
    for (let i = 0; i < 50; i++) await js.publish("s", "x".repeat(100));
    await jsm.consumers.add("S", { durable_name: "C", ack_policy: AckPolicy.None });
    const consumer = await js.consumers.get("S", "C");
    const take = async (options) => {
      let count = 0;
      try {
        for await (const _ of await consumer.fetch(options)) count++;
      } catch (error) {
        assert.match(error.message, /message size exceeds maxbytes/); // This client ends a full budget so.
      }
      return count;
    };
    assert.equal(await take({ max_messages: 10, expires: 3000 }), 10);
    const bytes = await take({ max_bytes: 1000, expires: 3000 });
    assert.ok(bytes > 2 && bytes < 10, `${bytes} messages in 1000 bytes`);
    assert.equal(await take({ max_messages: 100, expires: 1000 }), 50 - 10 - bytes);
    assert.equal(await consumer.next({ expires: 1000 }), null);
  },

  async consume_with_callback({ js, jsm }) {
    await jsm.streams.add({ name: "S", subjects: ["s"] });
    await jsm.consumers.add("S", { durable_name: "C", ack_policy: AckPolicy.Explicit });
    const consumer = await js.consumers.get("S", "C");
    const messages = await consumer.consume({ max_messages: 20 });
    for (let i = 0; i < 200; i++) js.publish("s", `${i}`);
    let expected = 1;
    for await (const m of messages) {
      assert.equal(m.seq, expected++);
      m.ack();
      if (expected === 201) break;
    }
    await messages.close();
  },

  async ordered_consumer({ js, jsm }) {
    await jsm.streams.add({ name: "S", subjects: ["s.*"] });
    for (let i = 0; i < 100; i++) await js.publish(`s.${i % 2}`, `${i}`);
    const consumer = await js.consumers.get("S", { filter_subjects: "s.1" });
    const seen = [];
    for await (const m of await consumer.consume()) {
      seen.push(m.seq);
      if (seen.length === 50) break;
    }
    assert.deepEqual(seen, Array.from({ length: 50 }, (_, i) => 2 * i + 2));
  },

  async push_consumer({ js, jsm, nc }) {
    await jsm.streams.add({ name: "S", subjects: ["s"] });
    await jsm.consumers.add("S", {
      durable_name: "P",
      ack_policy: AckPolicy.Explicit,
      deliver_subject: "deliver.here",
      idle_heartbeat: nanos(1000),
      flow_control: true,
    });
    const consumer = await js.consumers.getPushConsumer("S", "P");
    const messages = await consumer.consume();
    for (let i = 0; i < 20; i++) await js.publish("s", `${i}`);
    let count = 0;
    for await (const m of messages) {
      m.ack();
      if (++count === 20) break;
    }
    assert.equal((await jsm.consumers.info("S", "P")).delivered.stream_seq, 20);
  },

  async starting_positions({ js, jsm }) {
    await jsm.streams.add({ name: "ORDERS", subjects: ["ORDERS.*"] });
    for (let i = 1; i <= 100; i++) await js.publish("ORDERS.processed", `order ${i}`);
    const first = async (name, config) => {
      await jsm.consumers.add("ORDERS", { durable_name: name, ack_policy: AckPolicy.None, ...config });
      return (await (await js.consumers.get("ORDERS", name)).next({ expires: 3000 })).string();
    };
    assert.equal(await first("ALL", { deliver_policy: DeliverPolicy.All }), "order 1");
    assert.equal(await first("LAST", { deliver_policy: DeliverPolicy.Last }), "order 100");
    const ten = { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: 10 };
    assert.equal(await first("TEN", ten), "order 10");
  },

  async work_queue({ js, jsm }) {
    await jsm.streams.add({ name: "W", subjects: ["w"], retention: RetentionPolicy.Workqueue });
    await js.publish("w", "job");
    await jsm.consumers.add("W", { durable_name: "C", ack_policy: AckPolicy.Explicit });
    await (await (await js.consumers.get("W", "C")).next({ expires: 3000 })).ackAck();
    assert.equal((await jsm.streams.info("W")).state.messages, 0);
  },

  async priority_groups({ js, jsm, nc }) {
    await jsm.streams.add({ name: "S", subjects: ["s"] });
    for (let i = 0; i < 10; i++) await js.publish("s", `${i}`);
    await jsm.consumers.add("S", {
      durable_name: "O",
      ack_policy: AckPolicy.Explicit,
      priority_policy: "overflow",
      priority_groups: ["jobs"],
    });
    const consumer = await js.consumers.get("S", "O");
    const count = async (options) => {
      let n = 0;
      for await (const m of await consumer.fetch({ group: "jobs", expires: 1000, ...options })) {
        await m.ackAck();
        n++;
      }
      return n;
    };
    assert.equal(await count({ max_messages: 2, min_pending: 100 }), 0);
    assert.equal(await count({ max_messages: 2, min_pending: 5 }), 2);
    assert.equal(await count({ max_messages: 2 }), 2);
  },

  async management({ js, jsm }) {
    await jsm.streams.add({ name: "S", subjects: ["s.*"], allow_direct: true });
    const h = headers();
    h.set("A", "1");
    await js.publish("s.a", "one", { headers: h });
    await js.publish("s.b", "two");
    const stored = await jsm.streams.getMessage("S", { seq: 1 });
    assert.deepEqual([stored.string(), stored.header.get("A")], ["one", "1"]);
    const direct = await jsm.direct.getMessage("S", { last_by_subj: "s.b" });
    assert.deepEqual([direct.string(), direct.seq], ["two", 2]);
    assert.equal(await jsm.streams.deleteMessage("S", 1), true);
    assert.equal(await jsm.streams.find("s.b"), "S");
    assert.equal((await jsm.streams.purge("S")).purged, 1);
    assert.equal((await jsm.streams.names().next()).length, 1);
    await jsm.streams.update("S", { max_msgs: 5 });
    assert.equal((await jsm.streams.info("S")).config.max_msgs, 5);
    assert.equal((await jsm.getAccountInfo()).streams, 1);
    await assert.rejects(jsm.streams.info("NOPE"), /stream not found/);
  },

  async key_value({ nc }) {
    const kv = await new Kvm(nc).create("config", { history: 5 });
    assert.equal(await kv.put("color", "red"), 1);
    assert.equal(await kv.update("color", "blue", 1), 2);
    await assert.rejects(kv.update("color", "green", 1));
    assert.equal((await kv.get("color")).string(), "blue");
    assert.equal(await kv.create("size", "10"), 3);
    const keys = [];
    for await (const key of await kv.keys()) keys.push(key);
    assert.deepEqual(keys.sort(), ["color", "size"]);
    await kv.delete("color");
    assert.equal((await kv.get("color")).operation, "DEL");
    const seen = [];
    for await (const entry of await kv.history({ key: "color" })) seen.push(entry.operation);
    assert.deepEqual(seen, ["PUT", "PUT", "DEL"]);
  },

  async key_value_watch({ nc }) {
    const kv = await new Kvm(nc).create("watched");
    await kv.put("a", "1");
    const watch = await kv.watch();
    const seen = [];
    for await (const entry of watch) {
      seen.push(`${entry.key}=${entry.string()}`);
      if (seen.length === 1) await kv.put("b", "2");
      if (seen.length === 2) break;
    }
    assert.deepEqual(seen, ["a=1", "b=2"]);
  },

  async object_store({ nc }) {
    const store = await new Objm(nc).create("files");
    const data = new Uint8Array(500_000).map((_, i) => i % 251);
    const info = await store.putBlob({ name: "numbers" }, data);
    assert.equal(info.size, data.length);
    assert.deepEqual(await store.getBlob("numbers"), data);
    assert.deepEqual((await store.list()).map((entry) => entry.name), ["numbers"]);
    await store.delete("numbers");
    assert.equal(await store.getBlob("numbers"), null);
  },
};

const [url, name] = process.argv.slice(2);
if (url === "--list") {
  console.log(Object.keys(examples).join("\n"));
} else {
  const nc = await connect({ servers: url, timeout: 5000 });
  const jsm = await jetstreamManager(nc);
  try {
    await examples[name]({ nc, jsm, js: jetstream(nc) });
  } finally {
    for await (const info of await jsm.streams.list()) await jsm.streams.delete(info.config.name);
    await nc.close();
  }
}
