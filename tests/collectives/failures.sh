#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs in which a rank dies, throws, diverges or arrives late: how long they take to end, and their messages.
# usage: failures.sh MPIEXEC JOB FAILING_TESTS
set -u
mpiexec=$1
job=$2
failing_tests=$3
failures=0
# Other tests may run at the same time: Open MPI's segments and the folders of `tessera launch` belong to them.
names_in_memory() { ls /dev/shm | grep -vE '^(vader_segment|tessera-launch)\.' | sort; }
memory_before=$(names_in_memory)
TMPDIR=$(mktemp -d -p /tmp tessera_failures.XXXXXX)  # a short path, because Open MPI creates sockets there
export TMPDIR
failed=$(mktemp -p /tmp)  # has one line for each check that failed
trap 'rm -rf "$TMPDIR" "$failed"' EXIT

# check NAME RANKS WANTED_STATUS(0|fail) WANTED_TEXT [VARIABLE=value ...]
# Starts one of the jobs. Up to four run at the same time, because they wait most of the time; finish_checks waits for the last one.
check() {
  while [ "$(jobs -rp | wc -l)" -ge 4 ]; do wait -n; done
  run_check "$@" &
}

finish_checks() {
  wait
  [ -s "$failed" ] && failures=1
}

run_check() {
  local name=$1 ranks=$2 status=$3 text=$4
  shift 4
  local begin end out code folder
  folder=$(mktemp -d -p "$TMPDIR" job.XXXXXX)  # jobs that start together may both create Open MPI's folder
  begin=$(date +%s%N)
  out=$(env TMPDIR="$folder" "$@" "$mpiexec" -n "$ranks" "$job" "$name" 2>&1)
  code=$?
  end=$(date +%s%N)
  local milliseconds=$(((end - begin) / 1000000))
  local ok=yes
  if [ "$status" = 0 ]; then [ $code -eq 0 ] || ok="status $code"; else [ $code -ne 0 ] || ok="status 0"; fi
  [ $milliseconds -lt 10000 ] || ok="took $milliseconds ms"
  case "$out" in *"$text"*) ;; *) ok="message" ;; esac
  if [ "$ok" = yes ]; then
    echo "ok    $name on $ranks ranks $* ($milliseconds ms)"
  else
    printf 'FAIL  %s on %s ranks %s: %s; wanted "%s"; output:\n%s\n' "$name" "$ranks" "$*" "$ok" "$text" "$out"
    echo "$name" >>"$failed"
  fi
}

for nodes in "" "a,a,b,b" "a,b,c,d"; do
  check none 4 0 "rank 3 is through" TESSERA_NODE=$nodes
  check throw 4 fail "rank 3 of 4: out of paper" TESSERA_NODE=$nodes
  check kill 4 fail "rank 3" TESSERA_NODE=$nodes
  check size 4 fail "ranks diverge: rank " TESSERA_NODE=$nodes
  check kind 4 fail "rank 3 is at barrier %9" TESSERA_NODE=$nodes
  check late 4 0 "in all_reduce %17 over {data}; rank 3 has not arrived" TESSERA_NODE=$nodes TESSERA_WATCHDOG_SECONDS=1
done
# The same with a progress thread for pending collectives.
for nodes in "a,a,b,b" "a,b,c,d"; do
  for progress in 0 1; do
    check started 4 0 "rank 3 is through" TESSERA_NODE=$nodes TESSERA_PROGRESS=$progress
    check started-throw 4 fail "rank 3 of 4: out of paper" TESSERA_NODE=$nodes TESSERA_PROGRESS=$progress
    check started-kill 4 fail "rank 3" TESSERA_NODE=$nodes TESSERA_PROGRESS=$progress
    check started-size 4 fail "ranks diverge: rank " TESSERA_NODE=$nodes TESSERA_PROGRESS=$progress
  done
  check none 4 0 "rank 3 is through" TESSERA_NODE=$nodes TESSERA_PROGRESS=1
  check throw 4 fail "rank 3 of 4: out of paper" TESSERA_NODE=$nodes TESSERA_PROGRESS=1
  check kill 4 fail "rank 3" TESSERA_NODE=$nodes TESSERA_PROGRESS=1
  check late 4 0 "in all_reduce %17 over {data}; rank 3 has not arrived" TESSERA_NODE=$nodes TESSERA_WATCHDOG_SECONDS=1 TESSERA_PROGRESS=1
done
# A rank that waits longer than the timeout ends the job, and names the rank that is the cause. Time in which a rank
# computes does not count.
for nodes in "" "a,b,c"; do
  check busy 3 0 "rank 2 is through" TESSERA_NODE=$nodes TESSERA_COLLECTIVE_TIMEOUT=2
  check chain 3 fail "waited 2 s in all_reduce %17 over {model}, as long as TESSERA_COLLECTIVE_TIMEOUT allows; rank 1 has not arrived" TESSERA_NODE=$nodes TESSERA_COLLECTIVE_TIMEOUT=2
done
# A rank that is stopped is the cause, although it may be stopped while it waits. The start of MPI has the same limit.
check stop 3 fail "rank 2 is the cause: process" TESSERA_NODE= TESSERA_COLLECTIVE_TIMEOUT=2
check stop-early 3 fail "waited 2 s in MPI_Init" TESSERA_NODE= TESSERA_COLLECTIVE_TIMEOUT=2
for nodes in "" "a,b,c"; do
  check limited 3 fail "waited 1 s in rendezvous \"saving\", as long as its timeout allows" TESSERA_NODE=$nodes
done
check late 4 0 "rank 3 is through" TESSERA_NODE= TESSERA_COLLECTIVE_TIMEOUT=0
for text in "rank 1 waits for rank 2 in permute %9 over {data}" "rank 2 is the cause: it runs %dot.3 (dot), step 12 of 40 of train_step"; do
  check chain 3 fail "$text" TESSERA_NODE= TESSERA_COLLECTIVE_TIMEOUT=2
done
check chain 3 fail "rank 2 is on another node (host $(uname -n))" TESSERA_NODE=a,a,b TESSERA_COLLECTIVE_TIMEOUT=2
check none 4 0 "between nodes (measured in " TESSERA_NODE=a,a,b,b TESSERA_LOG_LEVEL=debug
check none 4 0 "between nodes (TESSERA_LINK): 50.0 us, 1.20 GB/s per rank" TESSERA_NODE=a,a,b,b TESSERA_LOG_LEVEL=debug TESSERA_LINK=50,1.2
check none 4 fail "TESSERA_LINK=fast: must be a latency in us and GB/s" TESSERA_NODE=a,a,b,b TESSERA_LINK=fast
check finish 4 fail "waits in all_reduce %17 over {data}; rank 3 has finished without joining" TESSERA_NODE=
check uncaught 3 fail "rank 0 of 3: nobody catches this" TESSERA_NODE=
check none 4 0 "all data goes through MPI" TESSERA_SHARED_MEMORY=0 TESSERA_LOG_LEVEL=debug
check kill 4 fail "rank 3" TESSERA_SHARED_MEMORY=files

# once NAME PART: the job NAME prints a line with PART, once for all ranks.
once() {
  local out count
  out=$(env TESSERA_NODE= "$mpiexec" -n 4 "$job" "$1" 2>&1)
  count=$(grep -c -- "$2" <<<"$out")
  if [ "$count" = 1 ]; then
    echo "ok    $1 prints \"$2\" once"
  else
    printf 'FAIL  %s prints "%s" %s times; output:\n%s\n' "$1" "$2" "$count" "$out"
    failures=1
  fi
}
# Messages that differ only in numbers, that name one of the ranks, or that name each rank itself.
once numbers "bytes are missing"
once numbers "  the message of rank.* has other numbers"
once named "rank 2 on host x cannot read t"
once finish "; rank 3 has finished without joining"

# Ranks with different instruction sets use the smallest one.
out=$("$mpiexec" -n 1 env TESSERA_ISA=generic "$job" none : -n 1 "$job" none 2>&1)
case "$out" in
  *"all use generic"*"rank 1 is through"* | *"rank 1 is through"*"all use generic"*) echo "ok    instruction sets" ;;
  *) if [ "$(uname -m)" = x86_64 ]; then echo "FAIL  instruction sets: $out"; failures=1; fi ;;
esac

# Settings of the user cause no warning and need no segment.
silent() {
  local out
  out=$(env "$@" "$mpiexec" -n 2 "$job" none 2>&1)
  case "$out" in
    *warning*) echo "FAIL  warns with $*: $out"; failures=1 ;;
    *"rank 1 is through"*) echo "ok    no warning with $*" ;;
    *) echo "FAIL  with $*: $out"; failures=1 ;;
  esac
}
silent TESSERA_SHARED_MEMORY=0

# If a rank can create neither a memfd nor a file of the required size, all ranks use MPI. The limit applies to rank
# LIMITED, or to all ranks. The segments of Open MPI would also exceed it.
real_job=$job
job=$(mktemp)
cat >"$job" <<END
#!/usr/bin/env bash
if [ "\$LIMITED" = all ] || [ "\$LIMITED" = "\$OMPI_COMM_WORLD_RANK" ]; then ulimit -f 1000; fi
exec "$real_job" "\$@"
END
chmod +x "$job"
for limited in all 3; do
  check none 4 0 "File too large); all data goes through MPI" LIMITED=$limited OMPI_MCA_btl=self,tcp
  check size 4 fail "ranks diverge: rank " LIMITED=$limited OMPI_MCA_btl=self,tcp
  check kill 4 fail "rank 3" LIMITED=$limited OMPI_MCA_btl=self,tcp
done
silent TESSERA_SHARED_MEMORY=0 LIMITED=all OMPI_MCA_btl=self,tcp
finish_checks
rm "$job"
job=$real_job

# Nothing is left behind after a job, even after kill -9: no process (which would hold unnamed memory), and no named
# memory or file in the folder for temporary files, which only this test uses. For the files of Open MPI see
# docs/debugging.md.
leftovers() {
  for process in /proc/[0-9]*; do
    if [ "$(readlink "$process/exe")" = "$(readlink -f "$job")" ]; then echo "process ${process#/proc/}"; fi
  done
  comm -13 <(echo "$memory_before") <(names_in_memory)
  find "$TMPDIR" -mindepth 1 -not -path "$TMPDIR/job.??????" -not -path "$TMPDIR/*ompi.*"
}
for _ in $(seq 50); do
  left=$(leftovers)
  [ -z "$left" ] && break
  sleep 0.1
done
if [ -n "$left" ]; then
  echo "FAIL  left behind: $left"
  failures=1
else
  echo "ok    nothing is left behind"
fi
# The check finds files that exist.
seen=$(mktemp -p /dev/shm tessera.XXXXXX)
file=$(mktemp -p "$TMPDIR" tessera.XXXXXX)
left=$(leftovers)
for expected in "$(basename "$seen")" "$file"; do
  case "$left" in *"$expected"*) ;; *) echo "FAIL  $expected is not seen in: $left"; failures=1 ;; esac
done
rm "$seen" "$file"

# The main function of MPI tests: a failure on one rank fails the run, and no rank waits for a rank that has left its
# test.
job=$failing_tests
check --gtest_filter=Soft.* 3 fail "rank 1: " A=b
check --gtest_filter=Hard.* 3 fail "rank 2 of 3: " A=b
check --gtest_filter=Throwing.* 3 fail "thrown in a test" A=b
finish_checks
exit $failures
