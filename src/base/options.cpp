// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/memory_limit.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX asks for it

namespace tessera {
namespace {

using enum OptionType;

constexpr OptionRow kTable[] = {
    {"PJRT_DEVICE", kText, "CPU",
     "the backend; CPU: kernels; REFERENCE: reference evaluation, which is slow, to find a faulty kernel"},
    {"XLA_USE_EAGER_DEBUG_MODE", kFlag, "0", "1 runs each op when it is traced, for debugging"},
    {"CPU_NUM_DEVICES", kInteger, "1",
     "ranks of a process that mpirun did not start, as threads, like --virtual_ranks"},
    {"TESSERA_NUM_THREADS", kInteger, "1", "compute threads of a rank"},
    {"TESSERA_DUMP_DIR", kText, "", "a folder for the program after every pass, as HLO text"},
    {"TESSERA_SKIP_PASSES", kList, "", "names of passes to skip, joined by commas"},
    {"TESSERA_PARTITION_SEARCH", kFlag, "1", "0 propagates shardings in one order, without a comparison of costs"},
    {"TESSERA_BF16_AXES", kList, "",
     "mesh axes, joined by commas, over which collectives carry f32 as bf16: half the bytes, rounded"},
    {"TESSERA_INT8_AXES", kList, "",
     "mesh axes, joined by commas, over which collectives carry f32 as int8 with one scale for 256 numbers: a quarter "
     "of the bytes"},
    {"TESSERA_WATCHDOG_SECONDS", kInteger, "30",
     "seconds that a rank waits in a collective before it reports; 0 = never"},
    {"TESSERA_COLLECTIVE_TIMEOUT", kInteger, "600",
     "seconds that a rank waits in a collective before it ends the job; 0 = never"},
    {"TESSERA_CHECK_INPUTS", kFlag, "1",
     "0 does not compare values that must be equal on all ranks: those of Tensor::from, shards that several ranks "
     "hold, loaded weights, inputs of tessera run"},
    {"TESSERA_NODE", kText, "",
     "the node of a rank, instead of MPI's answer; a list with one name for each rank places virtual ranks, and the "
     "ranks for which stats and dry runs plan"},
    {"TESSERA_SHARED_MEMORY", kChoice, "1",
     "how ranks of a node exchange data; 0: through MPI; staged: through staging buffers, without reading each other's "
     "memory in place; files: as if memfd did not exist",
     "1,0,staged,files"},
    {"TESSERA_MEMORY_LIMIT", kBytes, "",
     "bytes that the process of a rank may hold, as in 2GB or 1.5GiB: a program that needs more does not start; 0: no "
     "limit, and the memory of the control group and of the machine is no limit either"},
    {"TESSERA_MEMORY_BUDGET", kBytes, "",
     "bytes, as in 2GB: a program that needs more for parameters, results and intermediate values computes values of "
     "the "
     "forward pass again in the backward pass; 0 or empty: never"},
    {"TESSERA_OFFLOAD_DIR", kText, "",
     "a folder on a fast disk: a program with a memory budget may also write values to a file there, and read them "
     "back in the "
     "backward pass; empty: never"},
    {"TESSERA_ASYNC", kChoice, "auto",
     "1 runs a step while the next one is traced, 0 does not; auto: 1 if the node has a further core for each rank",
     "auto,0,1"},
    {"TESSERA_OVERLAP", kFlag, "1", "0 completes each collective between nodes before the next step"},
    {"TESSERA_OVERLAP_MEMORY", kInteger, "536870912",
     "bytes that running collectives may add to a memory plan; beyond this, the largest collectives are not "
     "overlapped"},
    {"TESSERA_LINK", kList, "",
     "latency in us and GB/s between nodes, as in 50,1.2, instead of the values measured at the start; a third number: "
     "us for each further message of a step"},
    {"TESSERA_PROGRESS", kChoice, "auto",
     "1 progresses collectives between nodes in a thread of each rank while the rank computes, 0 does not; auto: 1 if "
     "the node has a further core for each rank",
     "auto,0,1"},
    {"TESSERA_WINOGRAD", kFlag, "1",
     "0 computes f32 convolutions with windows of three by three elements without Winograd's algorithm"},
    {"TESSERA_FUSE", kFlag, "1", "0 runs every elementwise op by itself"},
    {"TESSERA_EXCESS_PRECISION", kFlag, "1", "0 rounds 16-bit floats after every op, also within a fused group"},
    {"TESSERA_LARGEST_VALUE", kInteger, "67108864",
     "bytes; a larger product (the logits of a vocabulary) and the values computed from it are computed in chunks; 0 = "
     "never"},
    {"TESSERA_LARGEST_SCORES", kInteger, "4194304",
     "bytes; larger attention scores are computed in chunks of batches, heads or query rows (1 MiB), and "
     "rematerialized in the backward pass, if that needs less memory; 0 = never"},
    {"TESSERA_ISA", kText, "",
     "the instruction set of the kernels: generic, avx2, avx512, avx512bf16 or amx; default: the best that the "
     "processor supports"},
    {"TESSERA_CACHE_DIR", kText, "",
     "a folder for partitioned programs, which later runs read instead of partitioning"},
    {"XLA_COMPILATION_CACHE_SIZE", kInteger, "1024",
     "compiled programs that a rank keeps; beyond this, it compiles the least recently used ones again when they are "
     "needed"},
    {"XLA_AUTO_SPMD", kFlag, "0", "1 chooses the shardings of tensors without annotation, as use_spmd(automatic)"},
    {"XLA_AUTO_SPMD_MESH", kText, "",
     "the mesh of auto mode: the sizes of its axes, as in 2,4, or names and sizes, as in data=2,model=4"},
    {"TESSERA_MACHINE", kText, "cpu-node",
     "the machine for which auto mode chooses shardings: a preset, or a profile that tessera calibrate has written"},
    {"TESSERA_DATA", kText, "", "a folder of data sets, searched after the cache folder"},
    {"HF_HOME", kText, "~/.cache/huggingface",
     "the folder of Hugging Face's tools; models are searched in its folder hub"},
    {"TESSERA_RESTART", kInteger, "0", "set by tessera launch: how often it has started this job again"},
    {"TESSERA_JOB_START", kInteger, "0", "set by tessera launch: when the job began, in seconds since the epoch"},
    {"TESSERA_RENAME_DELAY", kInteger, "0",
     "milliseconds to wait before and after a complete file or checkpoint gets its name; for tests that end a run "
     "then"},
    {"TESSERA_TRACE_FILE", kText, "",
     "a file for a timeline of all ranks, which ui.perfetto.dev shows; the value of rank 0 counts"},
    {"TESSERA_TRACE_LEVEL", kInteger, "1", "2: the timeline also contains every schedule step"},
    {"TESSERA_DOCTOR_FILE", kText, "", "set by tessera doctor: a file to which rank 0 adds what the doctor reads"},
    {"TESSERA_LOG_LEVEL", kChoice, "info", "the least important lines on standard error", "debug,info,warning,error"},
    {"PT_XLA_DEBUG", kFlag, "0", "1 = PT_XLA_DEBUG_LEVEL 100"},
    {"PT_XLA_DEBUG_LEVEL", kInteger, "0",
     "0 off; 1 advice and compilation analysis on rank 0; 2 execution analysis too"},
    {"PT_XLA_DEBUG_FILE", kText, "", "a file for the analysis, instead of standard error"},
    {"PT_XLA_DEBUG_MAX_FRAME", kInteger, "8", "the most calls that an analysis names"},
    {"XLA_METRICS_SAMPLES", kInteger, "1024", "samples kept per metric"},
    {"XLA_METRICS_PERCENTILES", kText, "0.01:0.05:0.1:0.2:0.5:0.8:0.9:0.95:0.99", "the percentiles reported"},
    {"XLA_METRICS_FILE", kText, "", "a file to which each step's metrics report is added; rank r > 0 writes FILE.r"},
};
constexpr std::size_t kRows = std::size(kTable);

std::size_t row_of(std::string_view name) {
  static const auto kIndex = [] {
    boost::unordered_flat_map<std::string_view, std::size_t> index;
    for (std::size_t i = 0; i < kRows; ++i) index.emplace(kTable[i].name, i);
    return index;
  }();
  if (const auto found = kIndex.find(name); found != kIndex.end()) return found->second;
  std::vector<std::string> known;
  for (const OptionRow& row : kTable) known.emplace_back(row.name);
  fail("unknown option {}{}", name, suggest_name(name, known));
}

bool is_integer_text(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Returns the index of `value` among the choices of a row, or nothing if it is not one of them.
std::optional<std::size_t> choice_of(const OptionRow& row, std::string_view value) {
  const std::vector<std::string> known = split(row.choices, ',');
  const auto found = std::find(known.begin(), known.end(), value);
  if (found == known.end()) return std::nullopt;
  return static_cast<std::size_t>(found - known.begin());
}

bool is_flag_text(std::string_view text) { return text == "0" || text == "1" || text == "true" || text == "false"; }

// The range of an integer option.
struct Range {
  std::string_view name;
  std::int64_t least;
  std::int64_t most;
};
constexpr std::int64_t kNoEnd = std::numeric_limits<std::int64_t>::max();
constexpr Range kRanges[] = {{"CPU_NUM_DEVICES", 1, 4096},
                             {"TESSERA_NUM_THREADS", 1, 1024},
                             {"TESSERA_LARGEST_VALUE", 0, kNoEnd},
                             {"TESSERA_LARGEST_SCORES", 0, kNoEnd},
                             {"TESSERA_OVERLAP_MEMORY", 0, kNoEnd},
                             {"PT_XLA_DEBUG_LEVEL", 0, kNoEnd},
                             {"PT_XLA_DEBUG_MAX_FRAME", 0, kNoEnd},
                             {"XLA_METRICS_SAMPLES", 1, kNoEnd},
                             {"TESSERA_WATCHDOG_SECONDS", 0, kNoEnd},
                             {"TESSERA_COLLECTIVE_TIMEOUT", 0, kNoEnd},
                             {"XLA_COMPILATION_CACHE_SIZE", 1, kNoEnd},
                             {"TESSERA_RESTART", 0, kNoEnd},
                             {"TESSERA_JOB_START", 0, kNoEnd},
                             {"TESSERA_RENAME_DELAY", 0, 60'000},
                             {"TESSERA_TRACE_LEVEL", 1, 2}};

static_assert(std::all_of(std::begin(kRanges), std::end(kRanges), [](const Range& range) {
  return std::any_of(std::begin(kTable), std::end(kTable),
                     [&](const OptionRow& row) { return row.name == range.name && row.type == kInteger; });
}));

std::int64_t integer_of(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void check_integer(const OptionRow& row, std::string_view value) {
  require(is_integer_text(value), "{}={}: must be an integer ({})", row.name, value, row.meaning);
  for (const Range& range : kRanges) {
    if (range.name != row.name) continue;
    const std::int64_t number = integer_of(value);
    require(number >= range.least, "{}={}: must be at least {} ({})", row.name, value, range.least, row.meaning);
    require(number <= range.most, "{}={}: must be at most {} ({})", row.name, value, range.most, row.meaning);
  }
}

void check(const OptionRow& row, std::string_view value) {
  if (row.type == kInteger) check_integer(row, value);
  if (row.type == kBytes && !value.empty()) (void)parse_bytes(value, row.name);
  if (row.type == kFlag) require(is_flag_text(value), "{}={}: must be 0 or 1 ({})", row.name, value, row.meaning);
  if (row.type == kChoice && !choice_of(row, value))
    fail("{}={}: unknown value; known: {} ({})", row.name, value, fmt::join(split(row.choices, ','), ", "),
         row.meaning);
}

// What a checked value means as a number.
std::int64_t number_of(const OptionRow& row, std::string_view value) {
  switch (row.type) {
    case kInteger: return integer_of(value);
    case kFlag: return value == "1" || value == "true";
    case kChoice: return static_cast<std::int64_t>(*choice_of(row, value));
    case kText:
    case kList:
    case kBytes: return 0;
  }
  return 0;
}

}  // namespace

Options::Options() {
  for (const OptionRow& row : kTable) {
    const char* given = std::getenv(std::string(row.name).c_str());
    const bool is_set = given != nullptr && *given != '\0';  // scripts clear a variable with NAME=
    if (is_set) check(row, given);
    const std::string_view value = is_set ? std::string_view(given) : row.standard;
    values_.push_back({std::string(value), number_of(row, value)});
  }
}

void Options::set(std::string_view name, std::string_view value) {
  const std::size_t row = row_of(name);
  check(kTable[row], value);
  values_[row] = {std::string(value), number_of(kTable[row], value)};
}

const std::string& Options::text(std::string_view name) const { return values_[row_of(name)].text; }

std::int64_t Options::integer(std::string_view name) const {
  const std::size_t row = row_of(name);
  ensure(kTable[row].type == kInteger, "option {} is not an integer", name);
  return values_[row].number;
}

bool Options::flag(std::string_view name) const {
  const std::size_t row = row_of(name);
  ensure(kTable[row].type == kFlag, "option {} is not a flag", name);
  return values_[row].number != 0;
}

std::size_t Options::choice(std::string_view name) const {
  const std::size_t row = row_of(name);
  ensure(kTable[row].type == kChoice, "option {} is not a choice", name);
  return static_cast<std::size_t>(values_[row].number);
}

std::vector<std::string> Options::list(std::string_view name) const {
  std::vector<std::string> parts = split(text(name), ',');
  for (std::string& part : parts) part = std::string(trim(part));
  return parts;
}

std::string Options::str() const {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < kRows; ++i)
    if (values_[i].text != kTable[i].standard) parts.push_back(fmt::format("{}={}", kTable[i].name, values_[i].text));
  return fmt::format("{}", fmt::join(parts, " "));
}

const std::vector<OptionRow>& Options::table() {
  static const std::vector<OptionRow> kAll(std::begin(kTable), std::end(kTable));
  return kAll;
}

Options& options() { return RankContext::current().get<Options>(); }

namespace {

// A user who sets a variable with such a name expects an effect.
constexpr std::string_view kOurs[] = {"TESSERA_", "PT_XLA_", "XLA_METRICS_"};
constexpr std::string_view kOfTheBuild = "TESSERA_CCACHE";  // tools/configure.sh

// Variables of PyTorch/XLA that users expect to have an effect, and why they have none or what replaces them.
constexpr std::string_view kOfXrt = "it belongs to the XRT runtime; here addresses come from MPI";
constexpr std::string_view kAllShardings = "auto mode considers all shardings of an op";
constexpr std::string_view kBf16 = "use --bf16 or autocast to compute in bfloat16";
constexpr std::string_view kDumps = "use TESSERA_DUMP_DIR, or dump_ir and dump_hlo, to see programs";
constexpr std::pair<std::string_view, std::string_view> kIgnored[] = {
    {"TPU_IP_ADDRESS", kOfXrt},        {"XRT_TPU_CONFIG", kOfXrt}, {"XLA_AUTO_USE_GROUP_SHARDING", kAllShardings},
    {"XLA_DOWNCAST_BF16", kBf16},      {"XLA_USE_BF16", kBf16},    {"XLA_SAVE_HLO_FILE", kDumps},
    {"XLA_SAVE_TENSORS_FILE", kDumps},
};

// Returns the warning about a variable, or "" if there is none.
std::string complaint(std::string_view name, const std::vector<std::string>& known) {
  for (const auto& [other, reason] : kIgnored)
    if (name == other) return fmt::format("{} is ignored: {}", name, reason);
  const bool is_ours =
      std::any_of(std::begin(kOurs), std::end(kOurs), [&](auto start) { return name.starts_with(start); });
  if (!is_ours || name == kOfTheBuild || std::find(known.begin(), known.end(), name) != known.end()) return "";
  return fmt::format("unknown environment variable {}{}", name, suggest_name(name, known));
}

}  // namespace

std::vector<std::string> unknown_variables() {
  std::vector<std::string> known;
  for (const OptionRow& row : kTable) known.emplace_back(row.name);
  std::vector<std::string> lines;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    std::string line = complaint(text.substr(0, text.find('=')), known);
    if (!line.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

void warn_of_unknown_variables() {
  if (RankContext::current().rank() != 0) return;
  for (const std::string& line : unknown_variables()) log_warning("{}", line);
}

std::int64_t debug_level() { return options().flag("PT_XLA_DEBUG") ? 100 : options().integer("PT_XLA_DEBUG_LEVEL"); }

}  // namespace tessera
