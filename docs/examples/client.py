#!/usr/bin/env python3
"""A client of the cell API in Python, standard library only, to take as it is or to copy from.

    CELLKEEP_URL=http://127.0.0.1:8888 CELLKEEP_TOKEN=... python3 docs/examples/client.py
"""
import json
import os
import urllib.parse
import urllib.request


class Session:
    """One session. Used with `with`, it is deleted at the end."""

    def __init__(self, url, token, **fields):
        self.url, self.token = url.rstrip("/"), token
        self.id = self.json("POST", "/v1/sessions", fields)["id"]

    def open(self, method, path, body=None, **headers):
        request = urllib.request.Request(self.url + path, body, {"Authorization": "Bearer " + self.token, **headers},
                                         method=method)
        return urllib.request.urlopen(request, timeout=600)

    def json(self, method, path, body=None):
        with self.open(method, path, None if body is None else json.dumps(body).encode()) as answer:
            return json.loads(answer.read() or b"null")

    def run(self, code, **fields):
        """The finished cell: status, stdout, result, displays, artifacts and so on."""
        return self.json("POST", "/v1/sessions/%s/cells" % self.id, {"code": code, **fields})

    def stream(self, code, **fields):
        """(type, event) as it happens; the last one is ("done", the finished cell)."""
        body = json.dumps({"code": code, **fields}).encode()
        with self.open("POST", "/v1/sessions/%s/cells" % self.id, body, Accept="text/event-stream") as answer:
            kind = None
            for line in answer:
                if line.startswith(b"event:"):
                    kind = line[6:].strip().decode()
                elif line.startswith(b"data:"):
                    yield kind, json.loads(line[5:])

    def command(self, *argv, **fields):
        return self.json("POST", "/v1/sessions/%s/commands" % self.id, {"argv": argv, **fields})

    def path(self, name):
        return "/v1/sessions/%s/files/home/user/%s" % (self.id, urllib.parse.quote(name))

    def upload(self, name, data):
        self.open("PUT", self.path(name), data).close()

    def download(self, name):
        with self.open("GET", self.path(name)) as answer:
            return answer.read()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.open("DELETE", "/v1/sessions/" + self.id).close()


def main():
    url, token = os.environ.get("CELLKEEP_URL", "http://127.0.0.1:8888"), os.environ["CELLKEEP_TOKEN"]
    with Session(url, token, name="python example") as s:
        s.upload("points.csv", b"name,points\nada,3\nbob,4\n")
        cell = s.run("import pandas as pd\ndf = pd.read_csv('points.csv')\ndf.points.sum()")
        print("sum:", cell["result"]["text/plain"])

        for kind, event in s.stream("for name in df.name:\n    print('hello', name, flush=True)"):
            if kind == "stream":
                print("live:", event["content"]["text"], end="")

        cell = s.run("df.plot.bar(x='name').figure.savefig('chart.png')")
        for artifact in cell["artifacts"]:
            print("file:", artifact["name"], artifact["mime"], len(s.download(artifact["name"])) == artifact["size"])

        cell = s.run("1 / 0")
        print("ending:", cell["status"], cell["error"]["ename"])
        print("command:", s.command("python3", "-c", "print(6 * 7)")["stdout"], end="")


if __name__ == "__main__":
    main()
