#!/usr/bin/env python3
"""The data example: a CSV goes in, its sum and a chart come out. Python's standard library only.

    python3 docs/examples/sales.py --url http://127.0.0.1:8888 --token TOKEN

Writes sales.csv, uploads it into a fresh session, reads and draws it with pandas in one cell, draws
again in a second cell from the first one's DataFrame, and fetches the pictures that the cells made,
which nobody asked for by name. Says what it does; ends with an error when anything is not as it
should be.
"""
import argparse
import hashlib
import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

SALES = "month,revenue\nJan,120\nFeb,150\nMar,90\nApr,180\n"

FIRST_CELL = """
import pandas as pd
import matplotlib.pyplot as plt

df = pd.read_csv("sales.csv")
print(df["revenue"].sum())

df.plot.bar(x="month", y="revenue", legend=False, title="Revenue by month")
plt.savefig("chart.png")
"""

SECOND_CELL = """
share = (100 * df["revenue"] / df["revenue"].sum()).round(1)   # df is the first cell's
print(dict(zip(df["month"], share)))

plt.figure()
plt.pie(df["revenue"], labels=df["month"], autopct="%.0f%%")
plt.savefig("shares.png")
"""


class Gateway:
    """The few calls of the cell API that the example needs (docs/API.md has them all)."""

    def __init__(self, url, token):
        self.url, self.token = url.rstrip("/"), token

    def call(self, method, path, body=None, timeout=300):
        """Bytes of the answer. body: bytes as they are, anything else as JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Authorization", "Bearer " + self.token)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.read()
        except urllib.error.HTTPError as e:
            raise SystemExit("%s %s: %d %s" % (method, path, e.code, e.read().decode(errors="replace")))
        except urllib.error.URLError as e:
            raise SystemExit("no gateway answers at %s: %s" % (self.url, e.reason))

    def fetch(self, link):
        """Bytes behind an artifact's url, a path from the root of the server."""
        root = urllib.parse.urlsplit(self.url)
        return Gateway("%s://%s" % (root.scheme, root.netloc), self.token).call("GET", link)

    def json(self, method, path, body=None):
        return json.loads(self.call(method, path, body))


def check(condition, what):
    if not condition:
        raise SystemExit("NOT as it should be: " + what)


def run_cell(gateway, session, code):
    cell = gateway.json("POST", "/v1/sessions/%s/cells" % session, {"code": code})
    print("   ended:", cell["status"], "after", cell["usage"]["wall_ms"], "ms")
    print("   printed:", cell["stdout"].strip())
    check(cell["status"] == "ok", "the cell ended %s: %s" % (cell["status"], cell["error"]))
    return cell


def fetch_picture(gateway, cell, name):
    """The artifact of that name, found in the finished cell; its bytes, checked."""
    for a in cell["artifacts"]:
        print("   made: %(path)s (%(mime)s, %(size)d bytes, %(change)s)" % a)
    made = [a for a in cell["artifacts"] if a["name"] == name]
    check(len(made) == 1, "%s is not among the artifacts %s" % (name, cell["artifacts"]))
    picture = gateway.fetch(made[0]["url"])
    check(picture.startswith(b"\x89PNG\r\n\x1a\n"), "%s does not begin like a PNG" % name)
    check(len(picture) == made[0]["size"], "%s has another size than was announced" % name)
    check(hashlib.sha256(picture).hexdigest() == made[0]["sha256"], "%s has another SHA-256" % name)
    with open(name, "wb") as f:
        f.write(picture)
    print("   fetched %s: %d bytes, PNG signature and SHA-256 are right; saved here" % (name, len(picture)))


def main():
    arguments = argparse.ArgumentParser(description="upload a CSV, sum it with pandas, draw it, get the picture back")
    arguments.add_argument("--url", default=os.environ.get("CELLKEEP_URL", "http://127.0.0.1:8888"))
    arguments.add_argument("--token", default=os.environ.get("CELLKEEP_TOKEN", ""))
    arguments.add_argument("--keep", action="store_true", help="do not delete the session at the end")
    options = arguments.parse_args()
    gateway = Gateway(options.url, options.token)

    print("1. write sales.csv: four months of revenue")
    with open("sales.csv", "w", encoding="utf-8") as f:
        f.write(SALES)

    print("2. create a session: a microVM of its own with a Python kernel in it")
    session = gateway.json("POST", "/v1/sessions", {"name": "sales"})["id"]
    print("   session", session)
    try:
        print("3. upload sales.csv into it")
        gateway.call("PUT", "/v1/sessions/%s/files/home/user/sales.csv" % session, SALES.encode())

        print("4. first cell: read it with pandas, print the sum, draw a chart")
        first = run_cell(gateway, session, FIRST_CELL)
        check(first["stdout"] == "540\n", "the sum should be 540")
        fetch_picture(gateway, first, "chart.png")

        print("5. second cell: the DataFrame of the first one is still there; draw the shares")
        second = run_cell(gateway, session, SECOND_CELL)
        check("33.3" in second["stdout"], "April should have a third")
        check(not [a for a in second["artifacts"] if a["name"] == "chart.png"],
              "chart.png is the first cell's and should not be reported again")
        fetch_picture(gateway, second, "shares.png")
    finally:
        if not options.keep:
            gateway.call("DELETE", "/v1/sessions/" + session)
            print("6. the session is deleted")
    print("all as it should be: 540, chart.png, shares.png")


if __name__ == "__main__":
    sys.exit(main())
