// SPDX-License-Identifier: Apache-2.0
// Program -> Schedule: in which order a rank runs the instructions of its program, which of them run fused, and where every
// value lies. Pure: it knows nothing of kernels, ranks or time.
//
//   order     program order, improved: what makes memory (gathers, broadcasts) runs just before its first use, what frees
//             memory (reduce-scatters, reductions) as soon as it can
//   steps     what runs at once: one instruction, or a group of elementwise ones that goes over its elements tile by tile
//   views     broadcasts, and transposes and slices where the reader can follow strides, are never computed: readers look
//             through them
//   buffers   tuples, reshapes, copies and barriers share their operand's; an elementwise result takes over the buffer of an
//             operand that dies; a donated parameter's buffer takes the result it is paired with
//   plan      an offset in one arena for every other buffer; buffers that live at the same time never overlap
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/checked.h"
#include "tessera/ir/op_def.h"
#include "tessera/ir/program.h"

namespace tessera {

using BufferId = std::int32_t;
inline constexpr BufferId kNoBuffer = -1;
/// Every buffer of the arena starts at a multiple of this.
inline constexpr std::int64_t kBufferAlignment = 64;
/// Operands of shared all-gathers, and slices of assembled ones, start at a multiple of this and have a multiple of it as size: they are
/// mapped.
inline constexpr std::int64_t kPageAlignment = 4096;
/// Smaller results are not assembled: copies are cheaper than pages and waits.
inline constexpr std::int64_t kLeastAssembledBytes = std::int64_t{64} << 10;

/// Elements of a buffer as an array: element i lies at offset + sum i[d] * strides[d] (in elements).
struct View {
  Dims dims;
  Dims strides;
  std::int64_t offset = 0;
  friend bool operator==(const View&, const View&) = default;
};

/// What a broadcast, transpose, slice or reverse reads when its operand is read through `operand`.
View view_through(const OpView& op, const View& operand);

/// Where a reader finds a leaf of a value.
struct Access {
  BufferId buffer = kNoBuffer;  // none: a token, or a value that exists only within its fused group
  std::optional<View> view;     // none: the whole buffer, row-major. Of `source` itself: how it is to be written
  Id source = -1;               // the instruction, and its leaf, whose data this is
  std::int32_t source_leaf = 0;
};

/// Where a buffer lies.
enum class Place : std::uint8_t {
  kArena,      // at `offset` of the arena
  kParameter,  // the caller's: leaf `index` of the parameters (in pre-order over all parameters)
  kResult,     // the caller's: leaf `index` of the root
  kConstant,   // the literal of instruction `index`
  kPeers,  // the members' operands or slices of an all-gather (buffer `index` here), side by side where they have them
};
struct Buffer {
  Place place = Place::kArena;
  std::int64_t bytes = 0;
  std::int64_t offset = 0;
  std::int32_t index = 0;
  // The steps at which it is first written and last touched; parameters and constants live from -1.
  std::int32_t first = 0;
  std::int32_t last = 0;
  std::int64_t alignment = kBufferAlignment;  // of `offset`
};

/// Before a step: all members of the group of an all-gather must have completed a step of theirs.
struct Await {
  Id gather = -1;
  std::int32_t step = -1;
};

/// A leaf of an all-gather of which a node has one: ranks read each other's `operand`. They are published when all have completed step
/// `written` (-1: before the program began), and released when all have completed step `last_read`.
struct SharedGather {
  Id id = -1;
  std::int32_t leaf = 0;
  BufferId operand = kNoBuffer;
  BufferId result = kNoBuffer;
  std::int32_t written = -1;
  std::int32_t last_read = -1;
  /// `operand` is this rank's slice of the result, in the arena: in step `written` members write their parts to the slices of all. They
  /// may when all have completed step `claimed` (-1: at once).
  bool assembled = false;
  std::int32_t claimed = -1;
};

/// What runs at once.
struct Step {
  // In order. Several: fused ones, or a dot and the addition of its result to another value, which it makes where that lies.
  std::vector<Id> instructions;
  bool fused = false;            // elementwise and reductions of rows, tile by tile (also a single elementwise one)
  BufferId scratch = kNoBuffer;  // live during this step only
  std::vector<Await> awaits = {};
  bool overlapped = false;                   // a collective that is only started here
  std::vector<std::int32_t> completes = {};  // started steps that must be done before this one runs
};

/// How leaf k of the root comes to the caller.
enum class Delivery : std::uint8_t {
  kDirect,   // its producer writes the caller's buffer
  kInPlace,  // it already lies in the buffer of the parameter leaf it is paired with
  kCopy,     // copied from `source` after the last step
};
struct Result {
  Delivery delivery = Delivery::kDirect;
  Access source;                     // of kCopy
  std::int32_t parameter_leaf = -1;  // of kInPlace
  BufferId staging = kNoBuffer;      // of kCopy, when the target may still be the source of another copy: copy twice
};

struct ScheduleOptions {
  bool reorder = true;
  bool fuse = true;
  bool look_through_views = true;
  /// The node of each device, where devices of a node read each other's memory in place; else empty.
  std::vector<int> nodes = {};
  /// Collectives that leave a node are started early and waited for late.
  bool overlap = false;
  /// Only those of at most so many bytes, operands and results.
  std::int64_t overlapped_bytes = std::numeric_limits<std::int64_t>::max();
  /// What that may add to the arena: beyond it the larger ones wait where they stand.
  std::int64_t overlap_memory = std::numeric_limits<std::int64_t>::max();
};

struct Schedule;

/// A computation that a while, conditional or call runs.
struct NestedSchedule {
  ComputationId computation = -1;
  /// A while body: result leaf k belongs in the buffer of parameter leaf k.
  bool in_place = false;
  std::shared_ptr<const Schedule> schedule;
};

/// The plan of one computation.
struct Schedule {
  ComputationId computation = -1;
  ScheduleOptions options;
  std::vector<Step> steps;
  std::vector<Buffer> buffers;
  std::vector<std::vector<Access>> access;  // [instruction][leaf]
  std::vector<Result> results;              // one per leaf of the root
  std::vector<std::vector<NestedSchedule>>
      nested;  // [instruction][called]; empty for ops whose callees are scalar functions
  std::vector<SharedGather> shared_gathers;
  std::vector<Await> end_awaits;            // before the program ends
  std::vector<std::int32_t> end_completes;  // the same
  std::int64_t arena_bytes = 0;
  /// Bytes of parameters, of results that take no parameter's buffer, and of constants.
  std::int64_t parameter_bytes = 0;
  std::int64_t result_bytes = 0;
  std::int64_t constant_bytes = 0;
  /// All of the above: what a rank needs to run the computation.
  [[nodiscard]] std::int64_t peak_bytes() const {
    return (Checked(arena_bytes) + parameter_bytes + result_bytes + constant_bytes).value_or_most();
  }
};

/// The plan of the entry computation, donation as in program.aliases.
std::shared_ptr<const Schedule> make_schedule(const Program& program, const ScheduleOptions& options = {});

/// Bytes a device needs at once to run a per-device program as written: make_schedule(program)->peak_bytes(). An estimate of what is
/// executed, which is lowered first (plan_execution).
std::int64_t peak_bytes(const Program& program);

/// The operands of a collective of several that travel as one message, packed: those of at most kMostPackedBytes. Fewer than two: none.
/// What is larger goes without a copy.
std::vector<std::size_t> packed_operands(const OpView& collective);
inline constexpr std::int64_t kMostPackedBytes = std::int64_t{64} << 10;

/// What a step runs and how many bytes of memory it reads and writes (each buffer once).
struct StepSummary {
  std::string what;  // `fused add, multiply 3 -> f32[4,256,768] (%add.7)`
  std::int64_t read = 0;
  std::int64_t written = 0;
};
StepSummary summarize(const Program& program, const Schedule& schedule, const Step& step);
/// One line a step, with its bytes: what TESSERA_DUMP_DIR holds beside the programs.
std::string describe(const Program& program, const Schedule& schedule);

/// The order alone: a permutation of the instructions of a computation.
std::vector<Id> order_instructions(const Program& program, const Computation& computation);

/// Throws InternalError unless the plan is sound: operands are ready and unharmed when read, buffers that live at the same time
/// do not overlap, everything lies within the arena; what peers read or write in place is awaited before it is read, and not used for
/// anything else before all have read it, however far ranks are apart in between.
void verify_schedule(const Program& program, const Schedule& schedule);

}  // namespace tessera
