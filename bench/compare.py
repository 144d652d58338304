#!/usr/bin/env python3
"""Prints the ratios between two runs of weft_bench (or of a peer's script with the same fields).

Usage: compare.py A.jsonl B.jsonl [--mode-a MODE] [--mode-b MODE]
A case's time is its fastest mode unless a mode is named. A ratio above 1 means that B is faster.
"""
import argparse
import json


def read(path, mode):
    best = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if "us" not in row or (mode and row["mode"] != mode):
                continue
            if row["case"] not in best or row["us"] < best[row["case"]][0]:
                best[row["case"]] = (row["us"], row["mode"])
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("a")
    parser.add_argument("b")
    parser.add_argument("--mode-a")
    parser.add_argument("--mode-b")
    options = parser.parse_args()
    a, b = read(options.a, options.mode_a), read(options.b, options.mode_b)
    print(f"{'case':42} {'A us':>12} {'B us':>12} {'A/B':>7}  modes")
    for case in a:
        if case in b:
            print(f"{case:42} {a[case][0]:12.3f} {b[case][0]:12.3f} {a[case][0] / b[case][0]:7.2f}  {a[case][1]} / {b[case][1]}")
    for name, only, other in (("A", a, b), ("B", b, a)):
        missing = [case for case in only if case not in other]
        if missing:
            print(f"only in {name}: {', '.join(missing)}")


if __name__ == "__main__":
    main()
