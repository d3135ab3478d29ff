// SPDX-License-Identifier: Apache-2.0
// `tessera checkpoint inspect|verify|consolidate DIR`.
#include <fmt/format.h>

#include "command_line.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/checkpoint.h"

namespace tessera::command {
namespace {

struct Group {
  std::int64_t tensors = 0;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
};

std::map<std::string, Group> groups_of(const Checkpoint& checkpoint) {
  std::map<std::string, Group> out;
  for (const auto& entry : checkpoint.entries()) {
    Group& group = out[entry.group];
    ++group.tensors;
    group.elements += entry.type.element_count();
    group.bytes += entry.type.byte_size();
  }
  return out;
}

JsonObject summary(const Checkpoint& checkpoint) {
  JsonObject groups;
  for (const auto& [name, group] : groups_of(checkpoint)) {
    JsonObject one;
    one.set("tensors", group.tensors);
    one.set("elements", group.elements);
    one.set("bytes", group.bytes);
    groups.set(name, one);
  }
  JsonObject files;
  for (const auto& [name, bytes] : checkpoint.files()) files.set(name, static_cast<std::int64_t>(bytes));
  std::vector<JsonObject> tensors;
  for (const auto& entry : checkpoint.entries()) {
    JsonObject& one = tensors.emplace_back();
    one.set("group", entry.group);
    one.set("name", entry.name);
    one.set("type", entry.type.str());
    one.set("parts", entry.parts);
  }
  JsonObject out;
  out.set("folder", checkpoint.folder());
  out.set("groups", groups);
  out.set("files", files);
  out.set("tensors", tensors);
  return out;
}

int inspect(const Arguments& arguments) {
  const Checkpoint checkpoint(arguments.input());
  if (arguments.has("json")) {
    write_standard_output(summary(checkpoint).str());
    return kGood;
  }
  std::string out = fmt::format("{:<14}{:>8}{:>14}{:>16}\n", "group", "tensors", "elements", "bytes");
  for (const auto& [name, group] : groups_of(checkpoint))
    out += fmt::format("{:<14}{:>8}{:>14}{:>16}\n", name, group.tensors, group.elements, group.bytes);
  out += fmt::format("\n{:<38}{:>14}\n", "file", "bytes");
  for (const auto& [name, bytes] : checkpoint.files()) out += fmt::format("{:<38}{:>14}\n", name, bytes);
  if (arguments.has("tensors")) {
    out += fmt::format("\n{:<56}{:<24}{:>6}\n", "tensor", "type", "parts");
    for (const auto& entry : checkpoint.entries())
      out += fmt::format("{:<56}{:<24}{:>6}\n", entry.group + "/" + entry.name, entry.type.str(), entry.parts);
  }
  write_standard_output(out);
  return kGood;
}

int verify(const Arguments& arguments) {
  const Checkpoint checkpoint(arguments.input());
  checkpoint.verify();
  std::uint64_t bytes = 0;
  for (const auto& [name, size] : checkpoint.files()) bytes += size;
  write_standard_output(
      fmt::format("{} files, {} bytes: all have the checksums of the manifest\n", checkpoint.files().size(), bytes));
  return kGood;
}

int consolidate(const Arguments& arguments) {
  const auto folder = arguments.value("o");
  if (!folder) throw UsageError("-o needs the folder to write");
  constexpr std::int64_t kMostByDefault = 5'000'000'000;
  const Checkpoint checkpoint(arguments.input());
  checkpoint.consolidate("model", *folder, arguments.number_or("max-shard-bytes", kMostByDefault));
  return kGood;
}

}  // namespace

const Verb kCheckpointInspect = {
    "checkpoint inspect",
    "prints what a checkpoint contains",
    "Reads only the manifest.",
    {{"tensors", "", "also print every tensor, with the number of its parts"}, {"json", "", "print all this as JSON"}},
    inspect,
    "DIR",
    "the folder of a checkpoint"};

const Verb kCheckpointVerify = {"checkpoint verify",
                                "compares the files of a checkpoint with their checksums",
                                "Exit code 1 if a file is missing or damaged; the error names it.",
                                {},
                                verify,
                                "DIR",
                                "the folder of a checkpoint"};

const Verb kCheckpointConsolidate = {
    "checkpoint consolidate",
    "writes the model of a checkpoint as a model folder",
    "The folder then contains config.json and model.safetensors, with the names and shapes of Hugging Face. Data is "
    "copied\n"
    "in pieces of a few megabytes, so the memory does not depend on the size of the model.",
    {{"o", "DIR", "the folder to write"},
     {"max-shard-bytes", "BYTES", "the largest file; default: 5000000000", whole_number(1)}},
    consolidate,
    "DIR",
    "the folder of a checkpoint"};

}  // namespace tessera::command
