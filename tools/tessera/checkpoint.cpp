// SPDX-License-Identifier: Apache-2.0
// `tessera checkpoint inspect|verify|consolidate|reshard|diff DIR`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

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
    out += fmt::format("{:<14}{:>8}{:>14}{:>16}\n", escape_controls(name), group.tensors, group.elements, group.bytes);
  out += fmt::format("\n{:<38}{:>14}\n", "file", "bytes");
  for (const auto& [name, bytes] : checkpoint.files())
    out += fmt::format("{:<38}{:>14}\n", escape_controls(name), bytes);
  if (arguments.has("tensors")) {
    out += fmt::format("\n{:<56}{:<24}{:>6}\n", "tensor", "type", "parts");
    for (const auto& entry : checkpoint.entries())
      out += fmt::format("{:<56}{:<24}{:>6}\n", escape_controls(entry.group + "/" + entry.name), entry.type.str(),
                         entry.parts);
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

std::string folder_to_write(const Arguments& arguments) {
  const auto folder = arguments.value("o");
  if (!folder || folder->empty()) throw UsageError("-o needs the folder to write");
  return std::string(*folder);
}

int consolidate(const Arguments& arguments) {
  const std::string folder = folder_to_write(arguments);
  constexpr std::int64_t kMostByDefault = 5'000'000'000;
  const Checkpoint checkpoint(arguments.input());
  checkpoint.consolidate("model", folder, arguments.number_or("max-shard-bytes", kMostByDefault));
  write_standard_output(fmt::format("{}: the model of {}\n", folder, checkpoint.folder()));
  return kGood;
}

int reshard(const Arguments& arguments) {
  const std::string folder = folder_to_write(arguments);
  if (!arguments.value("files")) throw UsageError("--files needs the number of files");
  const Checkpoint checkpoint(arguments.input());
  const auto count = arguments.number_or("files", 1);
  checkpoint.reshard(folder, static_cast<int>(count));
  write_standard_output(fmt::format("{}: {} tensors in {} files\n", folder, checkpoint.entries().size(), count));
  return kGood;
}

JsonObject json_of(const TensorDifference& one) {
  JsonObject out;
  out.set("name", one.name);
  one.first ? out.set("first", one.first->str()) : out.set_null("first");
  one.second ? out.set("second", one.second->str()) : out.set_null("second");
  out.set("different_elements", one.different);
  std::isfinite(one.largest) ? out.set("largest_difference", one.largest) : out.set_null("largest_difference");
  return out;
}

std::string line_of(const TensorDifference& one) {
  const std::string name = escape_controls(one.name);
  if (!one.first || !one.second) return fmt::format("{:<56}only in the {} one\n", name, one.first ? "first" : "second");
  if (*one.first != *one.second) return fmt::format("{:<56}{} and {}\n", name, one.first->str(), one.second->str());
  return fmt::format("{:<56}{} of {} elements differ, by at most {:.3g}\n", name, one.different,
                     one.first->element_count(), one.largest);
}

// The documents that differ or that only one of them contains.
std::vector<std::string> different_documents(const Checkpoint& a, const Checkpoint& b) {
  std::set<std::string> names;
  for (const Checkpoint* one : {&a, &b})
    for (const auto& name : one->document_names()) names.insert(name);
  std::vector<std::string> out;
  for (const std::string& name : names) {
    const auto text = [&](const Checkpoint& from) {
      const auto all = from.document_names();
      return std::find(all.begin(), all.end(), name) == all.end() ? "" : from.document(name).str();
    };
    if (text(a) != text(b)) out.push_back(name + ".json");
  }
  return out;
}

int diff(const Arguments& arguments) {
  if (arguments.inputs().size() != 2) throw UsageError("needs the folders of two checkpoints");
  const Checkpoint a(arguments.inputs()[0]);
  const Checkpoint b(arguments.inputs()[1]);
  const auto tensors = differences_of(a, b);
  const auto documents = different_documents(a, b);
  if (arguments.has("json")) {
    JsonObject out;
    std::vector<JsonObject> list;
    for (const auto& one : tensors) list.push_back(json_of(one));
    out.set("tensors", list);
    out.set("documents", documents);
    write_standard_output(out.str());
  } else {
    std::string out;
    for (const auto& one : tensors) out += line_of(one);
    for (const auto& name : documents) out += name + " differs\n";
    write_standard_output(out.empty() ? fmt::format("the {} tensors and all documents are equal\n", a.entries().size())
                                      : out);
  }
  return tensors.empty() && documents.empty() ? kGood : kCheckFailed;
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

const Verb kCheckpointReshard = {
    "checkpoint reshard",
    "divides a checkpoint into another number of files",
    "A run can load a checkpoint with any number of files; it reads the fewest bytes if there is one file "
    "for each rank. File k contains the\n"
    "k-th part of the rows of each tensor. Data is copied in pieces of a few megabytes.",
    {{"o", "DIR", "the folder to write; it must not exist"},
     {"files", "N", "the number of files", whole_number(1, 99999)}},
    reshard,
    "DIR",
    "the folder of a checkpoint"};

const Verb kCheckpointDiff = {
    "checkpoint diff",
    "compares two checkpoints, in any layouts",
    "Prints the tensors and documents that differ. The exit code is 3 if there are differences. Data is read "
    "in pieces of a few\nmegabytes.",
    {{"json", "", "print all this as JSON"}},
    diff,
    "DIR OTHER",
    "the folders of two checkpoints",
    true};

}  // namespace tessera::command
