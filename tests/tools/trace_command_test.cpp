// SPDX-License-Identifier: Apache-2.0
// tessera trace: the sums of the events of a trace.
#include <cstdint>

#include "tools/command_fixture.h"

namespace tessera::command_tests {
namespace {

// Two ranks, of which the second computes for 3 ms and then waits for 1 ms.
const std::string kTraceOfTwoRanks =
    R"({"traceEvents":[
{"name":"process_name","ph":"M","pid":1,"args":{"name":"rank 0 on a"}},
{"name":"all-reduce","cat":"collective","ph":"X","pid":1,"tid":1,"ts":1000.000,"dur":2000.000,"args":{"bytes":8}},
{"name":"all-reduce","cat":"collective","ph":"X","pid":1,"tid":1,"ts":4000.000,"dur":1000.000,"args":{"bytes":8}},
{"name":"dot.1","cat":"op","ph":"X","pid":1,"tid":1,"ts":0.000,"dur":500.000,"args":{"op":"dot"}},
{"name":"dot.2","cat":"op","ph":"X","pid":1,"tid":1,"ts":500.000,"dur":500.000,"args":{"op":"dot"}},
{"name":"process_name","ph":"M","pid":2,"args":{"name":"rank 1 on a"}},
{"name":"dot.1","cat":"op","ph":"X","pid":2,"tid":1,"ts":0.000,"dur":3000.000,"args":{"op":"dot"}},
{"name":"all-reduce","cat":"collective","ph":"X","pid":2,"tid":1,"ts":3000.000,"dur":1000.000,"args":{"bytes":8}}
],
"displayTimeUnit":"ms",
"otherData":{"ranks":2,"dropped_events":5,"clock_uncertainty_us":0.000}}
)";

TEST_F(TesseraCommand, TraceAddsUpTheEventsOfAllRanks) {
  const std::string trace = file("trace.json", kTraceOfTwoRanks);
  const auto outcome = run("trace " + trace);
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_EQ(
      outcome.out,
      trace +
          ": 6 events of 2 ranks in 5.0 ms; 5 events are missing\n\n"
          "category      name                                    count    mean ms longest ms ms of a rank  share  "
          "least and most of a rank\n"
          "collective    all-reduce                                  3      1.333      2.000        2.000  40.0%  "
          "1.000 (rank 1), 3.000 (rank 0)\n"
          "op            dot                                         3      1.333      3.000        2.000  40.0%  "
          "1.000 (rank 0), 3.000 (rank 1)\n");
  const auto first = run("trace --top 1 " + trace);
  EXPECT_NE(first.out.find("and 1 more kinds of events (--top)\n"), std::string::npos) << first.out;
}

TEST_F(TesseraCommand, TraceOfOneRankAndAsJson) {
  const std::string trace = file("trace.json", kTraceOfTwoRanks);
  const auto one = run("trace --rank 1 " + trace);
  EXPECT_EQ(one.code, 0) << one.error;
  EXPECT_NE(one.out.find(": 2 events of 1 rank in 4.0 ms"), std::string::npos) << one.out;
  EXPECT_LT(one.out.find("dot"), one.out.find("all-reduce")) << "the longest first";
  const auto json = run("trace --json " + trace);
  for (const char* part : {"\"ranks\": 2", "\"dropped_events\": 5", "\"name\": \"dot\"", "\"count\": 3"})
    EXPECT_NE(json.out.find(part), std::string::npos) << part << ": " << json.out;
}

TEST_F(TesseraCommand, TraceReadsOnlyTheBeginningOfATooLongLine) {
  const std::string endless = file("endless.json", R"({"traceEvents":[)");
  fs::resize_file(endless, std::uintmax_t{1} << 40U);  // one line, without data, and longer than any memory
  const auto outcome = run("trace " + endless);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.error, fmt::format("tessera trace: {}, line 1: has more than 1048576 bytes; a trace of Tessera has "
                                       "one event per line\n",
                                       endless));
  const std::string line = R"({"name":"a","cat":"op","ph":"X","pid":1,"tid":1,"ts":0.000,"dur":2000.000})";
  const std::string longest(std::size_t{1} << 20U, ' ');
  const auto allowed = file("longest.json", R"({"traceEvents":[)" + std::string("\n") + longest + "\n" + line);
  EXPECT_NE(run("trace " + allowed).out.find(": 1 events of 1 rank in 2.0 ms"), std::string::npos)
      << "the last line has no line break";
  const auto longer = file("longer.json", R"({"traceEvents":[)" + std::string("\n") + longest + " \n" + line);
  EXPECT_NE(run("trace " + longer).error.find("longer.json, line 2: has more than 1048576 bytes"), std::string::npos);
}

TEST_F(TesseraCommand, TraceNamesWhatIsWrong) {
  const std::string other = file("other.json", "{\"a\": 1}\n");
  EXPECT_EQ(run("trace " + other).error,
            fmt::format("tessera trace: {} is not a trace in the form that Tessera writes, with one event per line; "
                        "give a file that TESSERA_TRACE_FILE or "
                        "start_trace() wrote\n",
                        other));
  const std::string trace = file("trace.json", kTraceOfTwoRanks);
  EXPECT_EQ(run("trace --rank 7 " + trace).error, fmt::format("tessera trace: {} has no events of rank 7\n", trace));
  const std::string damaged = file("damaged.json", kTraceOfTwoRanks.substr(0, 150));
  const auto outcome = run("trace " + damaged);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.error.find("damaged.json, line 3: not JSON at "), std::string::npos) << outcome.error;
  EXPECT_NE(run("trace /no/such.json").error.find("No such file or directory"), std::string::npos);
}

}  // namespace
}  // namespace tessera::command_tests
