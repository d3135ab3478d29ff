// SPDX-License-Identifier: Apache-2.0
// The parts of the HLO text reader.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/text_cursor.h"
#include "tessera/ir/op_def.h"
#include "tessera/ir/program.h"

namespace tessera {

/// The deepest nesting of types and instructions that is not an error, because the reader is recursive. It also limits
/// the number of dims, because literals are nested.
inline constexpr int kDeepestNesting = 100;

/// Where a layout may occur: after the result type in the header of a computation, `{` may also open the body.
enum class LayoutRule : std::uint8_t { kAnywhere, kBodyMayFollow };
Type read_type(TextCursor& in, LayoutRule rule = LayoutRule::kAnywhere);
struct TailedType {
  Type type;
  std::string text;  // empty if no layout has a tail such as `:T(8,128)`
};
TailedType read_tailed_type(TextCursor& in);
/// Whether a type follows: `(` or a word followed by `[`.
bool type_is_next(TextCursor& in);
Literal read_literal(TextCursor& in, const Type& type);
/// Reads `{k="v",k2={raw}}`.
std::vector<std::pair<std::string, std::string>> read_frontend_attributes(std::string_view text);

/// Values or computations by name. The names refer to the text that is read.
using IdsByName = boost::unordered_flat_map<std::string_view, Id, HashText>;
template <class V>
using ByText = boost::unordered_flat_map<std::string, V, HashText>;

/// The tables of files and source locations that newer texts have after the header.
struct SourceTables {
  struct Place {
    std::string file;
    int line = 0;
  };
  boost::unordered_flat_map<std::int64_t, Place> frames;  // by stack_frame_id
  std::string text;                                       // as it is in the text
};
SourceTables read_source_tables(TextCursor& in);

/// Reads `{op_type="x" op_name="y" source_file="z" source_line=3 …}`.
void read_metadata(std::string_view text, const SourceTables& tables, Notes& notes);

/// Runs f; an Error without a location gets that of `position`.
template <class F>
auto with_place(const TextCursor& in, std::size_t position, F&& f) {
  try {
    return f();
  } catch (InternalError&) {
    throw;
  } catch (Error& error) {
    throw Error(error.what()).prefix(in.place(position)).note(in.excerpt(position));
  }
}

/// The sharding texts of an instruction, which are converted to axes after the complete module has been read.
struct PendingSharding {
  ComputationId computation = 0;
  Id instruction = 0;
  std::size_t position = 0;
  std::string hlo;              // of sharding=; empty when absent
  std::string sdy;              // of tessera.sharding or xla.sdy.sharding; empty when absent
  std::vector<Sharding> named;  // `hlo` in axes, if it is the form that names axes
};

/// A constant without elements, which gets its origins when those of all computations are known.
struct PendingElided {
  ComputationId computation = 0;
  Id instruction = 0;
  std::size_t position = 0;
  Literal value;
  std::string origins;  // of tessera.elided; empty when absent
};

/// A hint for the message of an unknown value: the nearest known name, or that operands must precede their consumers.
std::string nearest_value(const IdsByName& names, std::string_view name);

/// Sorts the frontend attributes of an instruction: one may contain its sharding, some are attributes of the row
/// (`own`), others go to the notes.
void take_frontend_attributes(std::string_view text, std::size_t position, const OpDef& op, Notes& notes,
                              PendingSharding& sharding, std::vector<TextAttribute>& own);

/// Parts of the header that are checked or used only at the end.
struct ModuleHeader {
  std::size_t entry_layout_position = 0;
  std::string entry_layout;  // empty when absent
  std::size_t meshes_position = 0;
  std::string meshes;
  bool is_shardy = false;  // the meshes are Shardy's, not those that this project prints
  bool has_num_partitions = false;
  std::size_t num_partitions_position = 0;
  std::size_t alias_position = 0;
};
ModuleHeader read_header(TextCursor& in, Program& program);
/// Checks entry_computation_layout and input_output_alias against the entry computation.
void check_header(const TextCursor& in, const ModuleHeader& header, Program& program);
/// The print order of header attributes.
int header_order(std::string_view name);

/// Notes::other in print order: backend_config last.
std::vector<TextAttribute> in_print_order(std::vector<TextAttribute> other);
/// The frontend attributes, without layouts of a type that the instruction no longer has, because these are not
/// printed.
std::vector<std::pair<std::string, std::string>> carried_attributes(const Instruction& instruction);
/// Whether HLO's instructions may have the attribute although no row uses it.
bool is_carried_by_hlo(std::string_view attribute);

/// State shared by the computations of a module.
struct ModuleState {
  TextCursor in;
  const OpTable& table;
  Program program;
  IdsByName computations;
  std::vector<PendingSharding> shardings;
  SourceTables sources{};
  std::set<std::pair<std::string_view, std::string>> warned{};  // op and attribute that it does not have
  // Those written where they are called, and those created by the reader.
  std::vector<ComputationId> nameless{};
  std::vector<PendingElided> elided{};
};
/// Reads `name (..) -> .. { .. }` and appends it to the program.
void read_computation(ModuleState& state);
/// `[name =] f32[2] add(f32[2] a, f32[2] b)` alone: an entry computation whose parameters are the operands.
void read_single_instruction(ModuleState& state);
/// Names the computations without names when all names are known.
void name_the_nameless(ModuleState& state);
/// Gives constants without elements their origins: those in the text, or their own names.
void name_elided_constants(ModuleState& state);
/// The origins of the leaves of a constant that is not a copy of another one.
std::vector<std::string> own_origins(const Computation& computation, const Instruction& constant);
void attach_shardings(ModuleState& state, const ModuleHeader& header, const std::vector<Mesh>& known);

inline constexpr std::string_view kMeshesKey = "tessera.meshes";
inline constexpr std::string_view kShardyMeshesKey = "xla.sdy.meshes";
inline constexpr std::string_view kSdyShardingKey = "xla.sdy.sharding";
inline constexpr std::string_view kShardingRuleKey = "xla.sdy.sharding_rule";
inline constexpr std::string_view kNumBatchDimsKey = "num_batch_dims";
inline constexpr std::string_view kOwnShardingKey = "tessera.sharding";
inline constexpr std::string_view kShardingSuffixKey = "tessera.sharding_suffix";  // ` shard_as 1` after sharding={..}
inline constexpr std::string_view kOutfeedShardingKey = "tessera.outfeed_sharding";  // kOutfeedShardingAttribute of ops
inline constexpr std::string_view kLayoutsKey =
    "tessera.layouts";  // the type where its layouts have tails: f32[8]{0:T(8)}
inline constexpr std::string_view kSourceTablesKey = "StackFrames";  // in Program::other: the tables after the header
inline constexpr std::string_view kPartitionedKey = "tessera.partitioned";
inline constexpr std::string_view kLoweredKey = "tessera.lowered";

}  // namespace tessera
