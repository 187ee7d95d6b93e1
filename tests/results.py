#!/usr/bin/python3
"""Collects what the tiers of script/test found.

  results.py junit TIER FILE   reads a JUnit report and prints one line a test
  results.py summary FILE      the failures and skips by name, then the one last line; exit 1 on failures

A line is `TIER pass|fail|skip NAME[ -- why]`.
"""
import sys
import xml.etree.ElementTree as ET


def one_line(text):
    return " ".join((text or "").split())[:300]


def from_junit(tier, path):
    try:
        root = ET.parse(path).getroot()
    except (OSError, ET.ParseError):
        return  # the tier itself is reported as unfinished by script/test
    for case in root.iter("testcase"):
        group = case.get("classname") or ""
        name = case.get("name") or "?"
        if group and group != name:
            name = group.removeprefix("tests.").replace(".", "/") + "::" + name
        bad = [e for e in case if e.tag in ("failure", "error")]
        skipped = case.find("skipped")
        if bad or case.get("status") == "fail":
            print("%s fail %s -- %s" % (tier, name, one_line(bad[0].get("message")) if bad else ""))
        elif skipped is not None or case.get("status") in ("notrun", "disabled"):
            why = skipped.get("message") if skipped is not None else "not run"
            print("%s skip %s -- %s" % (tier, name, one_line(why)))
        else:
            print("%s pass %s" % (tier, name))


def summary(path):
    count = {"pass": 0, "fail": 0, "skip": 0}
    tiers, notes = {}, []
    with open(path) as f:
        for line in f:
            tier, what, rest = line.rstrip("\n").split(" ", 2)
            count[what] += 1
            tiers.setdefault(tier, {"pass": 0, "fail": 0, "skip": 0})[what] += 1
            if what != "pass":
                notes.append((what, tier, rest))
    for tier, c in tiers.items():
        print("%-12s %4d passed, %d failed, %d skipped" % (tier, c["pass"], c["fail"], c["skip"]))
    for what, tier, rest in sorted(notes):
        print("%s %s %s" % ({"fail": "FAILED ", "skip": "skipped"}[what], tier, rest))
    print("%d passed, %d failed, %d skipped" % (count["pass"], count["fail"], count["skip"]))
    return 1 if count["fail"] or not count["pass"] else 0


def main(argv):
    if len(argv) == 4 and argv[1] == "junit":
        from_junit(argv[2], argv[3])
        return 0
    if len(argv) == 3 and argv[1] == "summary":
        return summary(argv[2])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv))
