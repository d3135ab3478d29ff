// SPDX-License-Identifier: Apache-2.0
// Reads computations and their instructions.
#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/ir/text.h"
#include "text/raw_instruction.h"

namespace tessera {
namespace {

class ComputationReader {
 public:
  explicit ComputationReader(ModuleState& state, int depth = 0) : state_(state), in_(state.in), depth_(depth) {}

  void read() {
    in_.skip_blanks();
    const auto start = in_.position();
    if (in_.peek_identifier() == "HloModule") in_.fail_at(start, "a second HloModule; give one file for each module");
    const bool is_entry = in_.take_word("ENTRY");
    if (is_entry && state_.program.entry >= 0) in_.fail_at(start, "a second ENTRY computation");
    in_.take("%");
    in_.skip_blanks();
    const auto place = in_.position();
    const auto name = in_.identifier("a computation");
    out_.name = name;
    const Signature signature = read_signature(in_);
    read_body(place);
    while (in_.take(",")) {
      const bool is_thread = in_.identifier("an attribute") == "execution_thread";
      in_.expect("=", "after the name of an attribute");
      if (!is_thread)
        in_.value("a value");
      else if (std::string thread = in_.quoted("the name of a thread"); thread != "main")
        out_.execution_thread = std::move(thread);
    }
    check_signature(in_, signature, out_);
    const auto id = static_cast<ComputationId>(state_.program.computations.size());
    if (!state_.computations.emplace(name, id).second)
      in_.fail_at(place, fmt::format("a second computation %{}", name));
    append();
    if (is_entry) state_.program.entry = id;
  }

  // Reads a computation `{ .. }` that is written where it is called.
  ComputationId read_nameless() {
    const auto place = in_.position();
    if (depth_ > kDeepestNesting)
      in_.fail_at(place, fmt::format("computations nested deeper than {}", kDeepestNesting));
    out_.name = "_";
    read_body(place);
    state_.nameless.push_back(append());
    return state_.nameless.back();
  }

  void read_single() {
    const auto place = in_.position();
    out_.name = "_";
    is_single_ = true;
    read_instruction();
    if (!in_.at_end()) in_.fail_expected("the end of the only instruction, or a module that begins with HloModule");
    out_.root = out_.size() - 1;
    finish_names();
    order_parameters(place);
    state_.program.entry = append();
    state_.nameless.insert(state_.nameless.begin(), state_.program.entry);
  }

 private:
  void read_body(std::size_t place) {
    in_.expect("{", "before the instructions");
    while (!in_.take("}")) {
      if (spanning_ && in_.at_end())
        in_.fail_at(*spanning_, fmt::format("the computation %{} is never closed, and this instruction continues after "
                                            "the end of its line: is a brace in it left open?",
                                            out_.name));
      read_instruction();
    }
    if (out_.instructions.empty()) in_.fail_at(place, fmt::format("computation %{} has no instructions", out_.name));
    if (out_.root < 0) out_.root = out_.size() - 1;
    finish_names();
    order_parameters(place);
  }

  ComputationId append() {
    const auto id = static_cast<ComputationId>(state_.program.computations.size());
    for (std::size_t i = first_sharding_; i < state_.shardings.size(); ++i)
      if (state_.shardings[i].computation < 0) state_.shardings[i].computation = id;
    for (std::size_t i = first_elided_; i < state_.elided.size(); ++i)
      if (state_.elided[i].computation < 0) state_.elided[i].computation = id;
    state_.program.computations.push_back(std::make_shared<const Computation>(std::move(out_)));
    return id;
  }

  // parameters_[k] is the position of parameter(k).
  void order_parameters(std::size_t place) {
    out_.parameters.resize(numbers_.size(), -1);
    for (const auto& [number, id, position] : numbers_) {
      if (number < 0 || number >= isize(numbers_))
        in_.fail_at(position, fmt::format("parameter({}) in a computation of {} parameters", number, numbers_.size()));
      if (at(out_.parameters, number) >= 0) in_.fail_at(position, fmt::format("a second parameter({})", number));
      at(out_.parameters, number) = id;
    }
    ensure(out_.root < out_.size(), "root out of range at {}", place);
  }

  // Names nested instructions after all names in the text are known.
  void finish_names() {
    std::unordered_map<std::string, int> taken;
    if (nested_.empty()) return;
    for (const auto& instruction : out_.instructions) taken.emplace(instruction.name, 0);
    for (const Id id : nested_) {
      const std::string base(at(out_.instructions, id).op->name);
      std::string name = base;
      while (!taken.try_emplace(name, 0).second) name = fmt::format("{}.{}", base, ++taken[base]);
      at(out_.instructions, id).name = std::move(name);
    }
  }

  void read_instruction() {
    const bool is_root = in_.take_word("ROOT");
    const bool has_name = !is_single_ || !type_is_next(in_);
    in_.take("%");
    in_.skip_blanks();
    const auto place = in_.position();
    const auto name = has_name ? in_.identifier("an instruction or \"}\"") : std::string_view("_");
    if (names_.contains(name)) in_.fail_at(place, fmt::format("a second %{} in this computation", name));
    if (has_name && !in_.take("=")) in_.fail_expected(fmt::format("\"=\" after the name {}", name));
    RawInstruction raw;
    raw.name = name;
    if (type_is_next(in_)) {
      auto declared = read_tailed_type(in_);
      raw.declared = std::move(declared.type);
      raw.layouts = std::move(declared.text);
    }
    read_call(raw, 0);
    read_attributes(raw);
    const Id id = finish(std::move(raw));
    names_.emplace(name, id);
    const auto written = trim(in_.text().substr(place, in_.position() - place));
    if (written.find('\n') != std::string_view::npos) spanning_ = place;
    if (!is_root) return;
    if (out_.root >= 0) in_.fail_at(place, "a second ROOT in this computation");
    out_.root = id;
  }

  // `opcode(..)`
  void read_call(RawInstruction& raw, int depth) {
    in_.skip_blanks();
    raw.position = in_.position();
    const auto opcode = in_.identifier("an op");
    constexpr std::size_t kLongestOp = 200;
    if (opcode.size() > kLongestOp) in_.fail_at(raw.position, fmt::format("an op's name of {} letters", opcode.size()));
    raw.op = state_.table.find(opcode);
    if (raw.op == nullptr) raw.op = wrapped_op(state_.table, opcode, raw.wrapped);
    if (raw.op == nullptr && opcode == "b" && in_.next_is("("))
      in_.fail_at(raw.position, "buffers, b(..), are not supported: they belong to compiled modules");
    if (raw.op == nullptr) with_place(in_, raw.position, [&] { return &state_.table.get(opcode); });
    if (!in_.take("(")) in_.fail_expected(fmt::format("\"(\" after {}", opcode));
    switch (raw.op->payload) {
      case Payload::kNumber: raw.number = in_.integer("a number between the parentheses"); break;
      case Payload::kLiteral:
        if (!raw.declared) in_.fail_at(raw.position, fmt::format("{} needs a type before it", opcode));
        raw.literal = read_literal(in_, *raw.declared);
        break;
      case Payload::kOperands:
        if (in_.next_is(")")) break;
        do {
          raw.operands.push_back(read_operand(depth));
        } while (in_.take(","));
        break;
    }
    if (!in_.take(")")) in_.fail_expected(fmt::format("\")\" after the operands of {}", opcode));
  }

  // `[type] name`, or a nested instruction `[type] opcode(..)`.
  Id read_operand(int depth) {
    std::optional<Type> declared;
    in_.skip_blanks();
    const auto type_place = in_.position();
    if (!in_.next_is("%") && type_is_next(in_)) declared = read_type(in_);
    in_.skip_blanks();
    const auto place = in_.position();
    if (is_single_ && declared && (in_.next_is(",") || in_.next_is(")"))) return add_parameter({}, *declared, place);
    const bool percent = in_.take("%");
    const auto word = in_.identifier("an operand");
    if (is_single_ && declared && !names_.contains(word) && !in_.next_is("("))
      return add_parameter(word, *declared, place);
    if (!percent && in_.next_is("(")) return read_nested(place, std::move(declared), depth);
    const auto found = names_.find(word);
    if (found == names_.end())
      in_.fail_at(place, fmt::format("unknown value %{}{}", word, nearest_value(names_, word)));
    const Type& type = out_[found->second].type;
    if (declared && !(*declared == type))
      in_.fail_at(type_place,
                  fmt::format("operand %{} is {}, but the text declares {}", word, type.str(), declared->str()));
    return found->second;
  }

  // For a single instruction: its operands become parameters of the module.
  Id add_parameter(std::string_view name, const Type& type, std::size_t place) {
    RawInstruction raw;
    raw.op = &state_.table.get("parameter");
    raw.position = place;
    raw.declared = type;
    raw.number = isize(numbers_);
    raw.name = name;
    const Id id = finish(std::move(raw));
    if (name.empty())
      nested_.push_back(id);
    else
      names_.emplace(name, id);
    return id;
  }

  Id read_nested(std::size_t place, std::optional<Type> declared, int depth) {
    if (depth >= kDeepestNesting)
      in_.fail_at(place, fmt::format("instructions nested deeper than {}", kDeepestNesting));
    in_.seek(place);
    RawInstruction raw;
    raw.declared = std::move(declared);
    read_call(raw, depth + 1);
    const Id id = finish(std::move(raw));
    nested_.push_back(id);
    return id;
  }

  void read_attributes(RawInstruction& raw) {
    while (in_.take(",")) {
      in_.skip_blanks();
      raw.positions.push_back(in_.position());
      std::string name(in_.identifier("an attribute"));
      for (const auto& other : raw.attributes)
        if (other.name == name) in_.fail_at(raw.positions.back(), fmt::format("attribute {} occurs twice", name));
      if (raw.attributes.size() == 1000) in_.fail_at(raw.positions.back(), "more than 1000 attributes");
      if (!in_.take("=")) in_.fail_expected(fmt::format("\"=\" after {}", name));
      std::string text = called_is_written_out(in_, raw, name) ? read_written_out(raw.positions.back())
                                                               : in_.value("the value of the attribute");
      if (name == "replica_groups" && text.starts_with("mesh")) read_mesh_groups(in_, text);
      if (name == "literal" && !in_.next_is(",")) text += " " + in_.value("the literal after its type");
      raw.attributes.push_back({std::move(name), std::move(text)});
    }
  }

  // Replaces computations that are written out by their ids; the text is kept for messages.
  std::string read_written_out(std::size_t attribute) {
    const auto start = in_.position();
    auto& ids = written_out_[attribute];
    in_.take("{");
    const bool is_list = in_.next_is("{");
    if (!is_list) in_.seek(start);
    do {
      if (is_list && !in_.next_is("{")) {
        in_.take("%");
        const auto place = (in_.skip_blanks(), in_.position());
        const std::string name(in_.identifier("a computation"));
        ids.push_back(with_place(in_, place, [&] { return computation_named(state_, name); }));
      } else {
        ids.push_back(ComputationReader(state_, depth_ + 1).read_nameless());
      }
    } while (is_list && in_.take(","));
    if (is_list) in_.expect("}", "after the computations");
    return std::string(in_.text().substr(start, in_.position() - start));
  }

  // Puts the op of an `x-start` into a separate computation; leaves the attributes of the start in `own`.
  ComputationId wrap(const RawInstruction& raw, const Instruction& start, std::vector<TextAttribute>& own,
                     std::vector<std::size_t>& positions) {
    Wrapping wrapping;
    for (std::size_t i = own.size(); i-- > 0;) {
      if (own[i].name != "async_execution_thread" && own[i].name != "async_group_id") continue;
      wrapping.kept.insert(wrapping.kept.begin(), own[i]);
      own.erase(own.begin() + static_cast<std::ptrdiff_t>(i));
      positions.erase(positions.begin() + static_cast<std::ptrdiff_t>(i));
    }
    Instruction inner;
    resolve_called(*raw.wrapped, inner, own, positions);
    wrapping.called = std::move(inner.called);
    wrapping.own = std::exchange(own, wrapping.kept);
    wrapping.computation = &out_;
    wrapping.operands = start.operands;
    return add_wrapped(state_, raw, std::move(wrapping));
  }

  Id finish(RawInstruction raw) {
    const Id id = out_.size();
    Instruction out;
    out.op = raw.op;
    out.name = std::move(raw.name);
    out.operands = std::move(raw.operands);
    PendingSharding sharding{-1, id, raw.position, {}, {}, {}};
    Notes notes;
    std::vector<TextAttribute> own;
    std::vector<std::size_t> own_positions;
    for (std::size_t i = 0; i < raw.attributes.size(); ++i) {
      with_place(in_, raw.positions[i],
                 [&] { take_common(raw.attributes[i], raw.positions[i], out, notes, sharding, own); });
      if (own_positions.size() < own.size()) own_positions.push_back(raw.positions[i]);
    }
    if (raw.wrapped != nullptr)
      out.called.push_back(wrap(raw, out, own, own_positions));
    else
      resolve_called(*raw.op, out, own, own_positions);
    if (raw.number) own.push_back({"number", std::to_string(*raw.number)});
    const auto known =
        with_place(in_, raw.position, [&] { return read_own_attributes(raw, std::move(own), out, notes); });
    if (!notes.other.empty()) warn_of_unknown(state_, raw, notes, known);
    infer_type(state_, out_, raw, out);
    if (!raw.layouts.empty()) notes.frontend_attributes.emplace_back(kLayoutsKey, std::move(raw.layouts));
    if (raw.number) numbers_.push_back({*raw.number, id, raw.position});
    if (raw.literal) note_elided(*raw.literal, id, raw.position, notes);
    if (!sharding.hlo.empty() || !sharding.sdy.empty()) state_.shardings.push_back(std::move(sharding));
    if (!(notes == Notes{})) out.notes = std::make_shared<const Notes>(std::move(notes));
    out_.instructions.push_back(std::move(out));
    return id;
  }

  void note_elided(const Literal& value, Id id, std::size_t position, Notes& notes) {
    std::string origins;
    std::erase_if(notes.frontend_attributes, [&](auto& attribute) {
      const bool found = attribute.first == kElidedKey;
      if (found) origins = std::move(attribute.second);
      return found;
    });
    if (value.is_elided()) state_.elided.push_back({-1, id, position, value, std::move(origins)});
  }

  // Reads attributes that every instruction may have; others are left for the row.
  void take_common(TextAttribute& attribute, std::size_t position, Instruction& out, Notes& notes,
                   PendingSharding& sharding, std::vector<TextAttribute>& own) {
    if (attribute.name == "sharding") {
      sharding.hlo = std::move(attribute.text);
      sharding.position = position;
    } else if (attribute.name == "metadata") {
      read_metadata(attribute.text, state_.sources, notes);
    } else if (attribute.name == "frontend_attributes") {
      take_frontend_attributes(attribute.text, position, *out.op, notes, sharding, own);
    } else if (attribute.name == "control-predecessors") {
      for (const auto& name : read_names(attribute.text)) {
        const auto found = names_.find(name);
        require(found != names_.end(), "unknown value %{}{}", name, [&] { return nearest_value(names_, name); });
        out.control_predecessors.push_back(found->second);
      }
    } else {
      own.push_back({attribute.name, std::move(attribute.text)});  // the row still needs the name
    }
  }

  void resolve_called(const OpDef& op, Instruction& out, std::vector<TextAttribute>& own,
                      std::vector<std::size_t>& positions) {
    for (const auto name : op.called) {
      const auto found = std::find_if(own.begin(), own.end(), [&](const TextAttribute& a) { return a.name == name; });
      if (found == own.end()) continue;
      const auto index = found - own.begin();
      const auto position = positions[static_cast<std::size_t>(index)];
      with_place(in_, position, [&] {
        if (const auto ids = written_out_.find(position); ids != written_out_.end()) {
          out.called.insert(out.called.end(), ids->second.begin(), ids->second.end());
          return;
        }
        const auto names = read_names(found->text);
        require(names.size() == 1 || is_list_of_computations(name), "{} names one computation, got {}", name,
                names.size());
        for (const auto& callee : names) out.called.push_back(computation_named(state_, callee));
      });
      own.erase(found);
      positions.erase(positions.begin() + index);
    }
  }

  struct ParameterNumber {
    std::int64_t number;
    Id id;
    std::size_t position;
  };
  ModuleState& state_;
  TextCursor& in_;
  std::optional<std::size_t> spanning_;  // the last instruction that spans several lines
  int depth_;                            // of nested computations
  bool is_single_ = false;               // the text is a single instruction
  Computation out_;
  IdsByName names_;
  std::vector<Id> nested_;
  std::vector<ParameterNumber> numbers_;
  std::unordered_map<std::size_t, std::vector<ComputationId>> written_out_;  // by the position of the attribute
  std::size_t first_sharding_ = state_.shardings.size();
  std::size_t first_elided_ = state_.elided.size();
};

}  // namespace

void read_computation(ModuleState& state) { ComputationReader(state).read(); }
void read_single_instruction(ModuleState& state) { ComputationReader(state).read_single(); }

}  // namespace tessera
