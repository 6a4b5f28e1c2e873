"""What sshd and ssh do for Tutti, between machines of a lab: `rsh.py --serve ADDRESS` runs the commands that come, and
`rsh.py HOST COMMAND ...` sends one, with its stdin and stdout; 255: there is no such host."""

import os
import socket
import sys
import threading

PORT = 2222


def serve(address):
    server = socket.create_server((address, PORT))
    while True:
        line, peer = server.accept()
        if os.fork() == 0:
            # An orphan of the machine's first process: nobody here waits for it.
            if os.fork() != 0:
                os._exit(0)
            server.close()
            command = b""
            while not command.endswith(b"\n"):
                command += line.recv(1) or b"\n"
            os.environ["SSH_CONNECTION"] = f"{peer[0]} {peer[1]} {address} {PORT}"
            os.dup2(line.fileno(), 0)
            os.dup2(line.fileno(), 1)
            line.close()
            os.execvp("sh", ["sh", "-c", command.decode()])
        os.wait()
        line.close()


def send(host, command):
    try:
        line = socket.create_connection((host.split("@")[-1], PORT), 5)
    except OSError:
        sys.exit(255)
    line.settimeout(None)
    line.sendall(command.encode() + b"\n")

    def up():
        while data := os.read(0, 1 << 16):
            line.sendall(data)
        line.shutdown(socket.SHUT_WR)

    threading.Thread(target=up, daemon=True).start()
    while data := line.recv(1 << 16):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    os._exit(0)


if sys.argv[1] == "--serve":
    serve(sys.argv[2])
else:
    send(sys.argv[1], " ".join(sys.argv[2:]))
