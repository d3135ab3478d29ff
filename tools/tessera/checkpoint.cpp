// SPDX-License-Identifier: Apache-2.0
// `tessera checkpoint inspect|verify|consolidate|reshard|diff DIR`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>

#include "command_line.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/base/memory_limit.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/checkpoint.h"

namespace tessera::command {
namespace {

std::vector<std::int64_t> list_of(const Dims& dims) { return {dims.begin(), dims.end()}; }

JsonObject json_of(const Checkpoint::Entry& entry) {
  JsonObject out;
  out.set("group", entry.group);
  out.set("name", entry.name);
  out.set("type", entry.type.str());
  out.set("dtype", std::string(dtype_name(entry.type.dtype())));
  out.set("shape", list_of(entry.type.dims()));
  if (entry.exported_dims != entry.type.dims()) out.set("exported_shape", list_of(entry.exported_dims));
  out.set("parts", entry.parts);
  return out;
}

JsonObject json_of(const std::map<std::string, std::uint64_t>& files) {
  JsonObject out;
  for (const auto& [name, bytes] : files) out.set(name, static_cast<std::int64_t>(bytes));
  return out;
}

JsonObject summary(const Checkpoint& checkpoint) {
  JsonObject groups;
  for (const auto& [name, group] : checkpoint.groups()) {
    JsonObject one;
    one.set("tensors", group.tensors);
    one.set("elements", group.elements);
    one.set("bytes", group.bytes);
    if (const std::string own = checkpoint.class_name(name); !own.empty()) one.set("class", own);
    groups.set(name, one);
  }
  std::vector<JsonObject> tensors;
  for (const auto& entry : checkpoint.entries()) tensors.push_back(json_of(entry));
  JsonObject out;
  out.set("folder", checkpoint.folder());
  out.set("groups", groups);
  out.set("files", json_of(checkpoint.files()));
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
  for (const auto& [name, group] : checkpoint.groups()) {
    const std::string own = checkpoint.class_name(name);
    out += fmt::format("{:<14}{:>8}{:>14}{:>16}{}\n", escape_controls(name), group.tensors, group.elements, group.bytes,
                       own.empty() ? "" : "  " + escape_controls(own));
  }
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

JsonObject verification(const std::string& folder, const std::map<std::string, std::uint64_t>& files,
                        std::int64_t bytes, const std::string& problem) {
  JsonObject out;
  out.set("folder", folder);
  out.set("passed", problem.empty());
  problem.empty() ? out.set_null("error") : out.set("error", problem);
  out.set("bytes", bytes);
  out.set("files", json_of(files));
  return out;
}

// With --json, the report is printed for a damaged checkpoint too, in addition to the error.
int verify(const Arguments& arguments) {
  std::map<std::string, std::uint64_t> files;
  std::optional<Error> damage;
  try {
    const Checkpoint checkpoint(arguments.input());
    files = checkpoint.files();
    checkpoint.verify();
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    damage = error;
  }
  std::int64_t bytes = 0;
  for (const auto& [name, size] : files) bytes += static_cast<std::int64_t>(size);
  if (arguments.has("json"))
    write_standard_output(verification(arguments.input(), files, bytes, damage ? damage->what() : "").str());
  else if (!damage)
    write_standard_output(
        fmt::format("{} files, {} bytes: all have the checksums of the manifest\n", files.size(), bytes));
  if (damage) throw Error(*damage);
  return kGood;
}

std::string folder_to_write(const Arguments& arguments) {
  const auto folder = arguments.value("o");
  if (!folder || folder->empty()) throw UsageError("-o needs the folder to write");
  return std::string(*folder);
}

// What consolidate and reshard report: the folder that they have written, and the sizes of its files.
JsonObject written(const Checkpoint& from, const std::string& folder) {
  std::map<std::string, std::uint64_t> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files[entry.path().filename().string()] = entry.file_size();
  JsonObject out;
  out.set("folder", folder);
  out.set("checkpoint", from.folder());
  out.set("files", json_of(files));
  return out;
}

int consolidate(const Arguments& arguments) {
  const std::string folder = folder_to_write(arguments);
  constexpr std::int64_t kMostByDefault = 5'000'000'000;
  const auto most = arguments.value("max-shard-bytes");
  const Checkpoint checkpoint(arguments.input());
  checkpoint.consolidate("model", folder, most ? parse_bytes(*most, "--max-shard-bytes") : kMostByDefault);
  if (arguments.has("json"))
    write_standard_output(written(checkpoint, folder).str());
  else
    write_standard_output(fmt::format("{}: the model of {}\n", folder, checkpoint.folder()));
  return kGood;
}

int reshard(const Arguments& arguments) {
  const std::string folder = folder_to_write(arguments);
  if (!arguments.value("files")) throw UsageError("--files needs the number of files");
  const Checkpoint checkpoint(arguments.input());
  const auto count = arguments.number_or("files", 1);
  checkpoint.reshard(folder, static_cast<int>(count));
  if (arguments.has("json"))
    write_standard_output(written(checkpoint, folder).str());
  else
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
  one.largest_at ? out.set("largest_difference_at", list_of(*one.largest_at)) : out.set_null("largest_difference_at");
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

// The number of tensors that at least one of the checkpoints contains.
std::size_t count_of_tensors(const Checkpoint& a, const Checkpoint& b) {
  std::set<std::string> names;
  for (const Checkpoint* one : {&a, &b})
    for (const auto& entry : one->entries()) names.insert(entry.group + "/" + entry.name);
  return names.size();
}

// `2 of 57 tensors differ; the largest difference is 0.5, at [3,1] of model/wte.weight`.
std::string last_line(const std::vector<TensorDifference>& tensors, std::size_t count) {
  const TensorDifference* worst = nullptr;
  const auto is_worse = [&](const TensorDifference& one) {
    if (worst == nullptr) return true;
    return !std::isnan(worst->largest) && (std::isnan(one.largest) || one.largest > worst->largest);
  };
  for (const TensorDifference& one : tensors)
    if (one.largest_at && is_worse(one)) worst = &one;
  std::string out =
      fmt::format("{} of {} tensors {}", tensors.size(), count, tensors.size() == 1 ? "differs" : "differ");
  if (worst != nullptr)
    out += fmt::format("; the largest difference is {:.3g}, at [{}] of {}", worst->largest,
                       fmt::join(*worst->largest_at, ","), escape_controls(worst->name));
  return out + "\n";
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
    out.set("tensors_compared", static_cast<std::int64_t>(count_of_tensors(a, b)));
    out.set("tensors", list);
    out.set("documents", documents);
    write_standard_output(out.str());
  } else {
    std::string out;
    for (const auto& one : tensors) out += line_of(one);
    for (const auto& name : documents) out += name + " differs\n";
    write_standard_output(out.empty() ? fmt::format("the {} tensors and all documents are equal\n", a.entries().size())
                                      : out + last_line(tensors, count_of_tensors(a, b)));
  }
  return tensors.empty() && documents.empty() ? kGood : kCheckFailed;
}

}  // namespace

const Verb kCheckpointInspect = {"checkpoint inspect",
                                 "prints what a checkpoint contains",
                                 "Reads only the manifest.",
                                 {{"tensors", "", "also print each tensor, with its type and the number of its parts"},
                                  {"json", "", "print all this as JSON"}},
                                 inspect,
                                 "DIR",
                                 "the folder of a checkpoint"};

const Verb kCheckpointVerify = {"checkpoint verify",
                                "compares the files of a checkpoint with the checksums of its manifest",
                                "Exit code 1 if a file is missing or damaged; the error names it.",
                                {{"json", "", "print the result as JSON"}},
                                verify,
                                "DIR",
                                "the folder of a checkpoint"};

const Verb kCheckpointConsolidate = {
    "checkpoint consolidate",
    "writes the model of a checkpoint as a model folder",
    "The folder then contains config.json and model.safetensors, with the names and shapes of Hugging Face. Data is "
    "copied\n"
    "in pieces of a few megabytes, so the memory does not depend on the size of the model.",
    {{"o", "DIR", "the folder to write; it must not exist, or be empty"},
     {"max-shard-bytes", "SIZE", "the largest size of a file, as in 5GB; default: 5000000000", byte_count()},
     {"json", "", "print the files as JSON"}},
    consolidate,
    "DIR",
    "the folder of a checkpoint"};

const Verb kCheckpointReshard = {
    "checkpoint reshard",
    "writes a checkpoint in another number of files",
    "A run can load a checkpoint with any number of files; each rank reads the fewest bytes if there is one file for "
    "each\n"
    "rank. File k contains the k-th part of the rows of each tensor. Data is copied in pieces of a few megabytes.",
    {{"o", "DIR", "the folder to write; it must not exist"},
     {"files", "N", "the number of files, at most the number of rows of the tensor with the most rows",
      integer_in_range(1, 99999)},
     {"json", "", "print the files as JSON"}},
    reshard,
    "DIR",
    "the folder of a checkpoint"};

const Verb kCheckpointDiff = {"checkpoint diff",
                              "compares two checkpoints, whose layouts may differ",
                              "Prints the tensors and JSON files that differ. The exit code is 3 if there is a "
                              "difference. Data is read in pieces of\na few megabytes.",
                              {{"json", "", "print all this as JSON"}},
                              diff,
                              "DIR OTHER",
                              "the folders of two checkpoints",
                              true};

}  // namespace tessera::command
