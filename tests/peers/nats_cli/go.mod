module jetspark-peers

go 1.24

require github.com/nats-io/natscli v0.4.0
