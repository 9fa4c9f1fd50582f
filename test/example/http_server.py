#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Asks http_server.cpp with curl over loopback and checks its answers: http_server.py PROGRAM...

Where wrk is installed, it asks as fast as it can for two seconds besides.
"""

import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

CURL = shutil.which("curl")
WRK = shutil.which("wrk")
WORDS = "six words in each line here\n" * 5_000


def curl(*arguments, text=None):
    """What curl prints; it fails where there is no answer."""
    command = [CURL, "--silent", "--show-error", "--max-time", "60", "--noproxy", "*", *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {found!r} in place of {wanted!r}")
    print(f"{what}: ok")


def parts_of(user):
    return "".join(f"{part} of {user}\n" for part in ("name", "orders", "invoices"))


def one_after_the_other(url):
    expect("three back ends", curl(f"{url}/user/ann"), parts_of("ann"))
    expect("words of a body", curl("--data-binary", "@-", f"{url}/words", text=WORDS), f"{6 * 5_000}\n")
    how = "%{http_code} %{num_connects}\n"
    found = curl("--write-out", how, "--output", os.devnull, f"{url}/user/bob", "--output", os.devnull, f"{url}/nothing")
    expect("one connection, with 404", found, "200 1\n404 0\n")
    found = curl("--write-out", how, "--output", os.devnull, "--header", "Connection: close", f"{url}/user/bob",
                 "--output", os.devnull, f"{url}/user/bob")
    expect("a connection each", found, "200 1\n200 1\n")
    expect("HTTP/1.0", curl("--http1.0", "--write-out", "%{http_code}", f"{url}/user/eve"), parts_of("eve") + "200")
    expect("no answer in time", curl("--write-out", "%{http_code}", f"{url}/user/nobody"), "Timeout\n504")


def at_the_same_time(url, folder):
    users = [f"user{i}" for i in range(200)]
    with open(f"{folder}/urls", "w", encoding="utf-8") as config:
        for user in users:
            config.write(f'url = "{url}/user/{user}"\noutput = "{folder}/{user}"\n')
    codes = curl("--parallel", "--parallel-max", "40", "--write-out", "%{http_code}\n", "--config", f"{folder}/urls")
    expect("codes of 200 requests", codes.split(), ["200"] * 200)
    for user in users:
        with open(f"{folder}/{user}", encoding="utf-8") as file:
            found = file.read()
        if found != parts_of(user):
            sys.exit(f"{user} was told {found!r}")
    print("answers of 200 requests: ok")


def as_fast_as_it_can(url):
    for what, connections in (("status", 40), ("user/ann", 8)):
        command = [WRK, "-t1", f"-c{connections}", "-d1s", "--timeout", "60s", f"{url}/{what}"]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rate = re.search(r"Requests/sec: +([\d.]+)", found)
        if not rate or "Non-2xx" in found or "Socket errors" in found:
            sys.exit(f"wrk: {found}")
        print(f"/{what} on {connections} connections: {float(rate[1]):,.0f} requests/s")


def raw(port, text):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(text)
        return b"".join(iter(lambda: connection.recv(4096), b""))


def what_curl_does_not_send(port):
    expect("nonsense", raw(port, b"who is there\r\n\r\n").split(b"\r\n")[0], b"HTTP/1.1 400 Bad Request")
    expect("half a head", raw(port, b"GET / HTTP/1.1\r\nHost:"), b"")  # closed after a time
    head = raw(port, b"HEAD /user/ann HTTP/1.1\r\nConnection: close\r\n\r\n")
    expect("the head alone", (b"Content-Length: 42\r\n" in head, head[-4:]), (True, b"\r\n\r\n"))
    both = raw(port, b"GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\nConnection: close\r\n\r\n")
    expect("two at once", re.findall(rb"no (/.) here", both), [b"/a", b"/b"])


def more_connections_than_files(server, port, url):
    files = f"/proc/{server.pid}/fd"
    old = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    most = len(os.listdir(files)) + 5
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (most, old[1]))
    many = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(20)]
    while len(os.listdir(files)) < most:
        pass
    for connection in many:
        connection.close()
    expect("after too many", curl(f"{url}/nothing"), "no /nothing here\n")
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, old)


def stop(server, url):
    """A request is in work when the server is asked to end: it gets its answer."""
    late = subprocess.Popen([CURL, "-sS", "--noproxy", "*", "--include", f"{url}/user/slow"], stdout=subprocess.PIPE, text=True)
    while curl(f"{url}/status") != "2 requests in work\n":
        pass
    server.send_signal(signal.SIGTERM)
    head, body = late.communicate()[0].split("\n\n", 1)
    expect("answer while it ends", body, parts_of("slow"))
    expect("its connection", "Connection: close" in head, True)
    rest = server.communicate(timeout=60)[0]
    expect("exit code", server.returncode, 0)
    requests, connections = map(int, re.match(r"(\d+) requests on (\d+) connections\n$", rest).groups())
    expect("fewer connections than requests", 40 <= connections < requests >= 200, True)
    print(f"count: {requests} requests answered over HTTP")
    expect("nobody listens", subprocess.run([CURL, "-s", url], check=False).returncode, 7)


def main():
    if CURL is None:
        sys.exit(print("skipped: curl not found (Debian: curl)"))
    server = subprocess.Popen([*sys.argv[1:], "0"], stdout=subprocess.PIPE, text=True)
    try:
        first = server.stdout.readline()
        if first.startswith("skipped: "):
            sys.exit(print(first))
        url, port = re.match(r"listening on (http://127\.0\.0\.1:(\d+))$", first).groups()
        one_after_the_other(url)
        with tempfile.TemporaryDirectory() as folder:
            at_the_same_time(url, folder)
        if WRK:
            as_fast_as_it_can(url)
        what_curl_does_not_send(int(port))
        more_connections_than_files(server, int(port), url)
        stop(server, url)
    finally:
        server.kill()


if __name__ == "__main__":
    main()
