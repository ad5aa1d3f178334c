"""A PostgreSQL server for tests: a cluster in a temporary folder, reached by a Unix socket alone."""

import contextlib
import glob
import os
import pwd
import shutil
import subprocess
import tempfile
import time

#: The line that ends the output of a script.
END = "-- end of the script --"


def missing_parts():
    """Return why PostgreSQL cannot be started here; None if it can."""
    if shutil.which("psql") is None or server_folder() is None:
        return "PostgreSQL is not installed: make test-postgres installs it from Debian's packages"
    if os.geteuid() == 0 and (shutil.which("runuser") is None or plain_user() is None):
        return "PostgreSQL does not run as root, and there is neither runuser nor a user postgres or nobody"
    return None


def server_folder():
    """Return the folder of the programs of the newest server; None if there is none."""
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: float(path.split("/")[-2]))
    found = shutil.which("initdb")
    return folders[-1] if folders else os.path.dirname(found) if found else None


def plain_user():
    """Return the user that the server runs as if this process is root's."""
    known = {user.pw_name for user in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in known), None)


class Postgres:
    """A server, and one session of psql. The server ends when this process does, even if it is killed."""

    def __init__(self, folder):
        self.folder, programs = folder, server_folder()
        initdb = [f"{programs}/initdb", "-D", f"{folder}/data", "-U", "fiol", "-A", "trust", "-E", "UTF8", "--locale=C"]
        done = subprocess.run([*as_plain_user(), *initdb, "--no-sync"], cwd="/", capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        options = f"-c listen_addresses='' -k {folder} -c fsync=off -c full_page_writes=off"
        server = f"{programs}/postgres -D {folder}/data {options} > {folder}/log 2>&1 < /dev/null"
        script = f"{server} & server=$!; cat > /dev/null; kill -QUIT $server; wait"  # cat ends with this process
        self.server = subprocess.Popen([*as_plain_user(), "sh", "-c", script], cwd="/", stdin=subprocess.PIPE)
        to_server = ["-h", folder, "-U", "fiol", "-d", "postgres"]
        for _ in range(600):
            if subprocess.run([f"{programs}/pg_isready", "-q", *to_server]).returncode == 0:
                break
            time.sleep(0.1)
        command, pipe = ["psql", "-X", "-q", "-A", "-t", "-F", "\x1f", *to_server], subprocess.PIPE
        self.session = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)

    def run(self, script):
        """Run a script and return the lines of its output, split into fields; RuntimeError if there is an error."""
        self.session.stdin.write(f"{script}\n\\echo '{END}'\n")
        self.session.stdin.flush()
        lines = []
        while (line := self.session.stdout.readline().removesuffix("\n")) != END:
            lines.append(line)
            if line == "" and self.session.poll() is not None:
                raise RuntimeError("psql has ended")
        if any("ERROR:" in line for line in lines):
            raise RuntimeError("\n".join(lines))
        return [line.split("\x1f") for line in lines]

    def close(self):
        """End the session and the server."""
        self.session.communicate()
        self.server.communicate()


def as_plain_user():
    """Return the beginning of a command that does not run as root."""
    return ["runuser", "-u", plain_user(), "--"] if os.geteuid() == 0 else []


@contextlib.contextmanager
def postgres_server():
    """Yield a server that ends, and whose files go, with the block."""
    folder = tempfile.mkdtemp(prefix="fiol-pg-", dir="/tmp")  # the path of a socket is short
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, plain_user())
        server = Postgres(folder)
        try:
            yield server
        finally:
            server.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
