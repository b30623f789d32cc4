// One job of the JavaScript client; the same contract as client_worker.py: argv is JOB URL COUNT.
import { connect } from "@nats-io/transport-node";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { createInterface } from "node:readline";

const payload = new Uint8Array(128).fill(120);
const [job, url, countText] = process.argv.slice(2);
const count = Number(countText);
const lines = createInterface({ input: process.stdin });
let cpuBegan;
const nc = await connect({ servers: url, noAsyncTraces: true });

function started() {
  return new Promise((resolve) => {
    lines.once("line", () => {
      cpuBegan = process.cpuUsage();
      resolve(performance.now());
    });
    console.log("ready");
  });
}

const jobs = {
  async "core-publish"() {
    const began = await started();
    for (let i = 0; i < count; i++) {
      nc.publish("core.bench", payload);
      if (i % 1000 === 999) await nc.flush();
    }
    await nc.flush();
    return performance.now() - began;
  },
  async "core-subscribe"() {
    const sub = nc.subscribe("core.bench");
    await nc.flush();
    const began = await started();
    let left = count;
    for await (const _ of sub) if (--left === 0) break;
    return performance.now() - began;
  },
  async publish() {
    const js = jetstream(nc);
    await js.publish("bench.a", payload);
    const began = await started();
    for (let done = 0; done < count; ) {
      const size = Math.min(4000, count - done);
      await Promise.all(Array.from({ length: size }, () => js.publish("bench.a", payload, { timeout: 60000 })));
      done += size;
    }
    return performance.now() - began;
  },
  async "publish-one"() {
    const js = jetstream(nc);
    await js.publish("bench.a", payload);
    const began = await started();
    for (let i = 0; i < count; i++) await js.publish("bench.a", payload);
    return performance.now() - began;
  },
  async fetch() {
    const jsm = await jetstreamManager(nc);
    const info = await jsm.consumers.add("BENCH", { ack_policy: "explicit", max_ack_pending: -1 });
    const consumer = await jetstream(nc).consumers.get("BENCH", info.name);
    const began = await started();
    let left = count;
    while (left > 0) {
      const messages = await consumer.fetch({ max_messages: 500, expires: 5000 });
      for await (const message of messages) {
        message.ack();
        left--;
      }
    }
    await nc.flush();
    return performance.now() - began;
  },
  async ordered() {
    const consumer = await jetstream(nc).consumers.get("BENCH");
    const began = await started();
    const messages = await consumer.consume({ max_messages: 10000 });
    let left = count;
    for await (const _ of messages) if (--left === 0) break;
    return performance.now() - began;
  },
};

const milliseconds = await jobs[job]();
const { user, system } = process.cpuUsage(cpuBegan);
console.log((count / milliseconds) * 1000, (user + system) / count);
await nc.close();
process.exit(0);
