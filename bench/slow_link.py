#!/usr/bin/env python3
"""How much of a link's rate large copies reach when it is slow and long: 1 Gb/s and 10 ms there and back, unless told otherwise (B3).

The link is `warpline-bench link` (docs/performance.md#the-link-emulator), the cases are those of `warpline-bench`. Needs a build (build/release; WARPLINE_BUILD names another one)."""

import argparse

from common import slow_link_figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=1e9, help="bits a second, each way")
    parser.add_argument("--round-trip", type=float, default=0.010, help="seconds")
    parser.add_argument("--cases", default="h2d_256m,d2h_256m,sync")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    figures = slow_link_figures(arguments.cases, arguments.rate, arguments.round_trip, arguments.runs)
    print(f"{arguments.rate / 1e9:g} Gb/s, {arguments.round_trip * 1e3:g} ms there and back; median of {arguments.runs} runs")
    for (case, metric), figure in figures.items():
        if metric in ("best_tls", "of_tls"):
            continue  # of this machine, not of the link
        of_link = f"  {figure['median'] * 8e9 / arguments.rate:.3f} of the link" if figure["unit"] == "GB/s" else ""
        print(f"{case:18} {metric:10} {figure['median']:10.4g} {figure['unit']}{of_link}")


if __name__ == "__main__":
    main()
