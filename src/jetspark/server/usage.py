"""What `-h` and `--help_tls` print."""

from __future__ import annotations

from typing import Final

USAGE: Final = """
Usage: jetspark server [options]

Server Options:
    -a, --addr, --net <host>         Listen on this host (default: 0.0.0.0)
    -p, --port <port>                Listen on this port; -1 picks a free one (default: 4222)
    -n, --name
        --server_name <name>         Name of the server (default: its id)
    -P, --pid <file>                 Write the process id to this file
    -m, --http_port <port>           Port for HTTP monitoring
    -ms,--https_port <port>          Port for HTTPS monitoring
        --dashboard=false            No dashboard on the monitoring port (default: true)
        --dashboard_changes          Let the dashboard publish, purge and delete (default: false)
        --dashboard_hosts <names>    Host names, with commas, that the dashboard answers to without users,
                                     besides localhost, addresses and the names of this machine
    -c, --config <file>              Configuration file
    -t                               Check the configuration file and exit
    -sl,--signal <signal>[=<pid>]    Send a signal to a running server (ldm, stop, quit, term, reopen, reload);
                                     <pid> is a process id or the path of a pid file
        --client_advertise <url>     Address to tell clients
        --ports_file_dir <dir>       Write the ports in use to <dir>/jetspark_<pid>.ports

Logging Options:
    -l, --log <file>                 Log to this file
    -T, --logtime                    Put the time on log lines (default: true)
        --logtime_utc                In UTC instead of local time (default: false)
    -s, --syslog                     Log to syslog
    -r, --remote_syslog <addr>       Log to the syslog server at udp://host:port
    -D, --debug                      Log what happens to connections and streams
    -V, --trace                      Log the protocol
    -VV                              As -V, with the system account
    -DV                              -D and -V
    -DVV                             -D and -VV
        --log_size_limit <bytes>     Start a new log file at this size
        --max_traced_msg_len <len>   Longest part of a message to log (default: all)

JetStream Options:
    -js, --jetstream                 Enable JetStream
    -sd, --store_dir <dir>           Directory for streams

Authorization Options:
        --user <user>                User required for connections
        --pass <password>            Password required for connections
        --auth <token>               Token required for connections

TLS Options:
        --tls                        Enable TLS without asking clients for a certificate (default: false)
        --tlscert <file>             Certificate of the server
        --tlskey <file>              Private key of the certificate
        --tlsverify                  Enable TLS and require client certificates
        --tlscacert <file>           Authority that client certificates must come from

Common Options:
    -h, --help                       Show this message
    -v, --version                    Show the version
        --help_tls                   Show help on TLS
"""

TLS_HELP: Final = """
A certificate and its key are given by --tlscert and --tlskey, or in the configuration file:

    tls {
        cert_file: "./server-cert.pem"
        key_file:  "./server-key.pem"
        # With these, clients need a certificate from this authority:
        ca_file:   "./ca.pem"
        verify:    true
    }

Cipher suites and versions come from the OpenSSL this Python uses; `min_version` ("1.2" or "1.3") narrows them.
"""
