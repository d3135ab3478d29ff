#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every test has the time limit that a busy machine needs: time_limits.py CTEST BUILD_FOLDER."""
import json
import subprocess
import sys

LEAST = 1500
UNLIMITED = 1500  # the default of ctest


def main():
    ctest, folder = sys.argv[1:]
    listing = subprocess.run([ctest, "--test-dir", folder, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    tests = json.loads(listing.stdout)["tests"]
    wrong = []
    for test in tests:
        properties = {one["name"]: one["value"] for one in test.get("properties", [])}
        least = max(LEAST, 5 * properties.get("COST", 0))
        limit = properties.get("TIMEOUT", UNLIMITED)
        if limit < least:
            wrong.append(f"{test['name']} may take {limit:g} s; it needs {least:g}")
    print("\n".join(wrong) if wrong else f"{len(tests)} tests have time enough")
    return 1 if wrong or len(tests) < 10 else 0


sys.exit(main())
