// SPDX-License-Identifier: Apache-2.0
// Manifests of checkpoints and indexes of model folders, beside the files that they describe.
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <optional>

#include "harness.h"
#include "tessera/base/checksum.h"
#include "tessera/base/files.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/pretrained.h"
#include "tessera/nn/layers.h"

namespace tessera::fuzz {
namespace {

namespace fs = std::filesystem;

// The module of which the corpus has manifests and indexes.
struct Module : nn::Linear {
  Module() : nn::Linear(7, 5) {}
};

// A checkpoint and a model folder with intact files, which are removed at the end.
class Folders {
 public:
  Folders() : root_(fs::temp_directory_path() / ("tessera_fuzz_" + std::to_string(getpid()))) {
    const Module module;
    JsonObject run;
    run.set("samples", 12);
    save_checkpoint(checkpoint(), {.states = {{"model", module.state_dict()}}, .documents = {{"run", run}}});
    save_state(module.state_dict(), model(), {.max_shard_bytes = 100});
  }
  ~Folders() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  Folders(const Folders&) = delete;
  Folders& operator=(const Folders&) = delete;
  [[nodiscard]] std::string checkpoint() const { return root_ / "checkpoint-1"; }
  [[nodiscard]] std::string model() const { return root_ / "model"; }

 private:
  fs::path root_;
};

const Folders& folders() {
  static const Folders all;
  return all;
}

// With the checksum of the content, so that mutations reach the code after its comparison.
std::string with_checksum(std::string_view text) {
  boost::json::error_code error;
  boost::json::value all = boost::json::parse(boost::json::string_view(text.data(), text.size()), error);
  if (error || !all.is_object()) return std::string(text);
  all.get_object().erase("xxh3");
  const std::string content = boost::json::serialize(all);
  all.get_object()["xxh3"] = checksum_text(checksum_of(std::as_bytes(std::span(content))));
  return boost::json::serialize(all) + "\n";
}

// What `tessera checkpoint inspect` does: the sums over the tensors and files.
void inspect(const Checkpoint& checkpoint) {
  std::int64_t tensors = 0;
  for (const auto& [name, group] : checkpoint.groups()) {
    demand(group.elements >= 0 && group.bytes >= group.elements, "a group of less than no bytes");
    (void)checkpoint.class_name(name);
    tensors += group.tensors;
  }
  demand(tensors == isize(checkpoint.entries()), "a tensor is in no group");
  std::int64_t bytes = 0;
  for (const auto& [name, size] : checkpoint.files()) bytes += static_cast<std::int64_t>(size);
  demand(bytes >= 0, "files of less than no bytes");
}

}  // namespace

bool check_manifest(std::string_view text) {
  write_file(folders().checkpoint() + "/manifest.json", with_checksum(text));
  std::optional<Checkpoint> read;
  if (!reads([&] { read.emplace(folders().checkpoint()); })) return false;
  must("a manifest that was read", [&] { inspect(*read); });
  reads([&] { read->verify(); });
  reads([&] { demand(differences_of(*read, *read).empty(), "a checkpoint differs from itself"); });
  reads([&] {
    const Module module;
    read->load("model", module.state_dict());
    read_now(module.state_dict());
  });
  return true;
}

bool check_index(std::string_view text) {
  write_file(folders().model() + "/model.safetensors.index.json", std::string(text));
  return reads([&] {
    Module module;
    load_pretrained(module, folders().model());
    read_now(module.state_dict());
  });
}

}  // namespace tessera::fuzz
