// SPDX-License-Identifier: Apache-2.0
// Program -> Schedule: the order in which a rank runs the instructions of its program, the fused groups, and the memory
// of every value. A pure function: it does not depend on kernels, ranks or time.
//
//   order     program order, improved: instructions that allocate memory (gathers, broadcasts) run just before their
//             first use, those that free memory (reduce-scatters, reductions) as early as possible
//   steps     units of execution: one instruction, or a group of elementwise ones that runs block by block
//   views     broadcasts, and transposes and slices whose readers can follow strides, are never computed: readers use
//             strides instead
//   buffers   tuples, reshapes, copies and barriers share their operand's; an elementwise result reuses the buffer of
//             an operand that is not read again; a donated parameter's buffer holds the result that is paired with it
//   plan      an offset in one arena for every other buffer; buffers that are live in the same step never overlap.
//             Values that the program moves to the host have offsets in a file in the same way
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
/// The addresses and sizes of the memory that ranks map from each other are multiples of this: operands of shared
/// all-gathers and slices of assembled ones (SharedGather).
inline constexpr std::int64_t kPageAlignment = 4096;
/// All-gathers with smaller results are not assembled (SharedGather), because a copy takes less time than waits and
/// mapped pages.
inline constexpr std::int64_t kLeastAssembledBytes = std::int64_t{64} << 10;

/// Elements of a buffer as an array: element i is at offset + sum i[d] * strides[d] (in elements).
struct View {
  Dims dims;
  Dims strides;
  std::int64_t offset = 0;
  friend bool operator==(const View&, const View&) = default;
};

/// Returns the view through which consumers read the result of a broadcast, transpose, slice or reverse, if its operand
/// is read through the view `operand`.
View view_through(const OpView& op, const View& operand);

/// How a consumer reads a leaf of a value.
struct Access {
  BufferId buffer = kNoBuffer;  // none for a token, or for a value that exists only in its fused group
  std::optional<View> view;     // nullopt: the complete buffer, row-major. `source` itself writes through it
  Id source = -1;               // the instruction that computes this data, and its leaf
  std::int32_t source_leaf = 0;
};

/// The memory of a buffer.
enum class Place : std::uint8_t {
  kArena,      // at `offset` of the arena
  kParameter,  // memory of the caller: leaf `index` of the parameters (in pre-order over all parameters)
  kResult,     // memory of the caller: leaf `index` of the root
  kConstant,   // the literal of instruction `index`
  kRow,        // a row of buffer `index` (RowAddress)
  kFile,       // at `offset` of a file of the host (OpDef::file_transfer); only in the entry computation
  kPeers,      // operands or slices of all members of an all-gather, mapped in sequence; `index`: that of this rank
};
/// A block of memory, its place and its lifetime.
struct Buffer {
  Place place = Place::kArena;
  std::int64_t bytes = 0;
  std::int64_t offset = 0;
  std::int32_t index = 0;
  // The steps at which it is first written and last used; -1 for parameters and constants.
  std::int32_t first = 0;
  std::int32_t last = 0;
  std::int64_t alignment = kBufferAlignment;  // of `offset`
};

/// A wait before a step, until all members of the group of the all-gather `gather` have completed step `step`.
struct Await {
  Id gather = -1;
  std::int32_t step = -1;
};

/// A leaf of an all-gather that is not copied within a node: ranks read each other's `operand` in place. Ranks may read
/// the operands when all ranks have completed step `written` (-1: before the program began). The operands may be
/// overwritten when all ranks have completed step `last_read`.
struct SharedGather {
  Id id = -1;
  std::int32_t leaf = 0;
  BufferId operand = kNoBuffer;
  BufferId result = kNoBuffer;
  std::int32_t written = -1;
  std::int32_t last_read = -1;
  /// True: `operand` is this rank's slice of the result, in the arena. In step `written`, each member writes its data
  /// into the slices of all members. It may do so when all members have completed step `claimed` (-1: from the start).
  bool assembled = false;
  std::int32_t claimed = -1;
};

/// A row of a stack that the state of a loop contains. Its address is computed at run time, before step `step`.
struct RowAddress {
  BufferId row = kNoBuffer;
  BufferId stack = kNoBuffer;
  BufferId index = kNoBuffer;  // an s32, clamped to [0, last]
  std::int32_t step = 0;
  std::int64_t stride = 0;  // bytes
  std::int64_t last = 0;
  Id access = -1;  // the op that would copy the row; it does nothing
};

/// One unit of execution.
struct Step {
  // The instructions in order. A step with several is a fused group, or a dot and the addition of its result to another
  // value in place.
  std::vector<Id> instructions;
  bool fused = false;            // elementwise ops and reductions of rows, block by block (also one elementwise op)
  BufferId scratch = kNoBuffer;  // live during this step only
  std::vector<Await> awaits = {};
  bool overlapped = false;                   // a collective that is only started here
  std::vector<std::int32_t> completes = {};  // started steps that must be done before this one runs
};

/// How leaf k of the root is returned to the caller.
enum class Delivery : std::uint8_t {
  kDirect,   // its producer writes the caller's buffer
  kInPlace,  // it is already in the buffer of its paired parameter leaf
  kCopy,     // copied from `source` after the last step
};
struct Result {
  Delivery delivery = Delivery::kDirect;
  Access source;                     // of kCopy
  std::int32_t parameter_leaf = -1;  // of kInPlace
  BufferId staging = kNoBuffer;      // of kCopy, if its target may be the source of another copy: copy through it
};

struct ScheduleOptions {
  bool reorder = true;
  bool fuse = true;
  bool look_through_views = true;
  /// The node of each device. Empty if devices of a node cannot read each other's memory in place.
  std::vector<int> nodes = {};
  /// Start collectives that leave a node early, and wait for them late.
  bool overlap = false;
  /// The largest collective to overlap, in bytes of operands and results.
  std::int64_t overlapped_bytes = std::numeric_limits<std::int64_t>::max();
  /// The bytes that overlap may add to the arena. Beyond that, the largest collectives are not overlapped.
  std::int64_t overlap_memory = std::numeric_limits<std::int64_t>::max();
};

struct Schedule;

/// A computation that a while, conditional or call runs.
struct NestedSchedule {
  ComputationId computation = -1;
  /// For a while body: result leaf k belongs in the buffer of parameter leaf k.
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
  std::vector<RowAddress> rows;             // in order of steps
  std::vector<Id> unwritten;                // values whose content nothing reads
  std::vector<Await> end_awaits;            // waits before the program ends
  std::vector<std::int32_t> end_completes;  // started steps that complete before the program ends
  std::int64_t arena_bytes = 0;
  std::int64_t file_bytes = 0;  // of values in a file of the host; no memory
  /// Bytes of parameters, of results that do not use the buffer of a parameter, and of constants.
  std::int64_t parameter_bytes = 0;
  std::int64_t result_bytes = 0;
  std::int64_t constant_bytes = 0;
  /// The sum of the above: the memory that a rank needs to run the computation.
  [[nodiscard]] std::int64_t peak_bytes() const {
    return (Checked(arena_bytes) + parameter_bytes + result_bytes + constant_bytes).value_or_most();
  }
};

/// Plans the entry computation, with donation as in program.aliases.
std::shared_ptr<const Schedule> make_schedule(const Program& program, const ScheduleOptions& options = {});

/// The peak memory of a per-device program as written: make_schedule(program)->peak_bytes(). The executed program may
/// differ, because it is lowered first (plan_execution).
std::int64_t peak_bytes(const Program& program);

/// The operands of a combined collective that are packed into one message: those of at most kMostPackedBytes, if
/// there are at least two. Larger operands are sent without a copy.
std::vector<std::size_t> packed_operands(const OpView& collective);
inline constexpr std::int64_t kMostPackedBytes = std::int64_t{64} << 10;

/// A description of a step and the bytes of memory that it reads and writes (each buffer once).
struct StepSummary {
  std::string what;  // `fused add, multiply 3 -> f32[4,256,768] (%add.7)`
  std::int64_t read = 0;
  std::int64_t written = 0;
};
/// Describes a step.
StepSummary summarize(const Program& program, const Schedule& schedule, const Step& step);
/// Returns one line for each step with its bytes, as in schedule.txt of TESSERA_DUMP_DIR.
std::string describe(const Program& program, const Schedule& schedule);

/// Returns only the order: a permutation of the instructions of a computation.
std::vector<Id> order_instructions(const Program& program, const Computation& computation);

/// Throws InternalError unless the plan is correct. When an operand is read, it must be complete and not overwritten.
/// Buffers that are alive at the same time must not overlap, and all buffers must be within the arena. A rank must wait
/// before it reads memory that peers write, and must not reuse memory before its peers have read it, even if the ranks
/// are many steps apart.
void verify_schedule(const Program& program, const Schedule& schedule);

}  // namespace tessera
