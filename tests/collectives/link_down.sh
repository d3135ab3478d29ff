#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The network between two nodes goes down during a job: the job ends, prints the reason, and leaves no process on either
# node.
# usage: link_down.sh MPIEXEC JOB; status 77 if network namespaces are not permitted.
set -u
mpiexec=$1
job=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TESSERA_COLLECTIVE_TIMEOUT=5

running() { for process in /proc/[0-9]*; do [ "$(readlink "$process/exe")" = "$(readlink -f "$job")" ] && echo "${process#/proc/}"; done; }

failures=0
for progress in 0 1; do
  begin=$(date +%s)
  export TESSERA_TEST_LINK_DOWN=$folder/started$progress  # the job creates this file
  # Not a pipe, which a process that is left would keep open.
  TESSERA_PROGRESS=$progress timeout -k 1 60 "$(dirname "$0")/namespaces.sh" "$mpiexec" 2 "$job" forever >"$folder/out" 2>&1
  code=$?
  out=$(cat "$folder/out")
  [ $code -eq 77 ] && { echo "$out"; exit 77; }
  seconds=$(($(date +%s) - begin))
  ok=yes
  # 124: `timeout` ended the job. 137 is also the status if a rank had to kill mpirun; the check of the seconds finds the timeout.
  [ $code -ne 0 ] && [ $code -ne 124 ] || ok="status $code"
  [ $seconds -lt 45 ] || ok="took $seconds s"
  for text in "all_reduce %17 over {data}, as long as TESSERA_COLLECTIVE_TIMEOUT allows; " "on another node (host node"; do
    case "$out" in *"$text"*) ;; *) ok="no \"$text\"" ;; esac
  done
  for _ in $(seq 100); do
    [ -z "$(running)" ] && break
    sleep 0.1
  done
  [ -z "$(running)" ] || ok="processes are left: $(running)"
  if [ "$ok" = yes ]; then
    echo "ok    the link goes down, TESSERA_PROGRESS=$progress ($seconds s)"
  else
    echo "FAIL  the link goes down, TESSERA_PROGRESS=$progress: $ok; output:"
    echo "$out"
    failures=1
  fi
done
exit $failures
