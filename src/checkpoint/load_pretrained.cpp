// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "files/file_names.h"
#include "files/manifest.h"
#include "files/part_names.h"
#include "files/read_elements.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json.h"
#include "tessera/base/json_object.h"
#include "tessera/base/log.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/pretrained.h"
#include "tessera/checkpoint/regions.h"
#include "tessera/tensor/safetensors.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// A place in one of the files.
struct Place {
  std::shared_ptr<const InputFile> file;
  std::uint64_t offset = 0;
};
// A tensor in one of the files, or in several: the elements of all places one after the other, equally many in each.
struct Source {
  NamedType tensor;
  std::vector<Place> places;
};

void add_file(const std::string& path, std::vector<Source>& out) {
  const auto file = std::make_shared<const InputFile>(path);
  const SafetensorsHeader header = SafetensorsHeader::from_file(*file);
  for (const auto& entry : header.tensors)
    out.push_back({{entry.name, entry.type}, {{file, header.data_begin + entry.begin}}});
}

// A path in an index must not leave its folder.
void check_file_name(const std::string& name, const std::string& index) {
  require(!name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
              name.find('\0') == std::string::npos,
          "{}: weight_map names the file \"{}\"; it must be the name of a file in the folder of the index", index,
          escape_controls(name));
}

std::vector<Source> sources_of_index(const std::string& folder) {
  const std::string path = folder + "/" + kIndexFile;
  (void)InputFile(std::string(path));  // refuses pipes, which would wait for a writer
  const std::string text = read_file(path);
  (void)parse_json_with_unique_keys(text, path);  // a repeated name would be in two files
  const JsonObject index = JsonObject::parse(text, path);
  JsonObject map;
  require(index.read("weight_map", map), "{}: weight_map is missing", path);
  std::map<std::string, std::string> file_of;
  std::set<std::string> files;
  for (const std::string& name : map.keys()) {
    map.read(name, file_of[name]);
    check_file_name(file_of[name], path);
    files.insert(file_of[name]);
  }
  std::vector<Source> out;
  for (const std::string& file : files) {
    std::vector<Source> found;
    add_file(fmt::format("{}/{}", folder, file), found);
    for (Source& source : found) {
      const auto entry = file_of.find(source.tensor.name);
      if (entry == file_of.end() || entry->second != file) continue;
      file_of.erase(entry);
      out.push_back(std::move(source));
    }
  }
  require(
      file_of.empty(), "{}: {} should be in {}, but that file does not contain it", path,
      [&] { return escape_controls(file_of.begin()->first); },
      [&] { return escape_controls(file_of.begin()->second); });
  return out;
}

[[noreturn]] void fail_without_safetensors(const std::string& folder) {
  const std::string link = dangling_link_text(folder);
  require(link.empty(), "{}", link);
  require(fs::is_directory(folder), "{} is not a folder; give a folder with config.json and {}", folder, kSingleFile);
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    require(!fs::exists(fs::path(folder) / name),
            "{0} has only {1}, a pickle file that could run any code; convert it with: python3 -c \"from transformers "
            "import AutoModelForCausalLM as M; M.from_pretrained('{0}').save_pretrained('{0}')\"",
            folder, name);
  require(!fs::exists(fs::path(folder) / kManifestFile),
          "{0} is a checkpoint, not a model folder; write one with: tessera checkpoint consolidate {0} -o FOLDER",
          folder);
  fail("{} has neither {} nor {}", folder, kSingleFile, kIndexFile);
}

std::vector<Source> sources_in(const std::string& folder) {
  // As in Hugging Face, a single file comes before an index, which an earlier save may have left.
  if (!is_there(folder + "/" + kSingleFile)) {
    if (is_there(folder + "/" + kIndexFile)) return sources_of_index(folder);
    fail_without_safetensors(folder);
  }
  std::vector<Source> out;
  add_file(folder + "/" + kSingleFile, out);
  return out;
}

// Returns the name of the variable of which `name` is a part, or "".
std::string variable_with_part(const StateDict& state, std::string_view name) {
  for (std::string& variable : names_with_part(name))
    if (state.find(variable) != nullptr) return std::move(variable);
  return "";
}

// Replaces the parts of a variable by one source.
void gather_parts(const StateDict& state, const std::string& folder, std::vector<Source>& sources) {
  std::map<std::string, std::map<std::string, Source>> parts;  // by variable and name
  std::erase_if(sources, [&](Source& source) {
    const std::string variable = variable_with_part(state, source.tensor.name);
    if (variable.empty()) return false;
    parts[variable].emplace(source.tensor.name, source);
    return true;
  });
  for (auto& [variable, found] : parts) {
    const Type& type = state.find(variable)->tensor.type();
    Source stacked;
    for (std::int64_t i = 0; i < type.dim(0); ++i) {
      const std::string name = part_name(variable, i);
      require(found.contains(name), "{}: {} is missing; {} needs {} parts, and the files have {}", folder, name,
              variable, type.dim(0), found.size());
      const Source& part = found.at(name);
      if (i == 0) {
        Dims dims = part.tensor.type.dims();
        dims.insert(dims.begin(), type.dim(0));
        stacked.tensor = {variable, part.tensor.type.with_dims(std::move(dims))};
      }
      require(part.tensor.type == found.at(part_name(variable, 0)).tensor.type, "{}: {} is {}, but {} is {}", folder,
              name, part.tensor.type, part_name(variable, 0), found.at(part_name(variable, 0)).tensor.type);
      stacked.places.push_back(part.places.front());
    }
    require(std::cmp_equal(found.size(), type.dim(0)), "{}: {} has {} parts in the files, but {} in the model", folder,
            variable, found.size(), type.dim(0));
    sources.push_back(std::move(stacked));
  }
}

// Files of a model without head have names without the prefix that the body has here.
void add_prefix(const StateDict& state, const std::string& prefix, std::vector<Source>& sources) {
  const auto fits = [&](const Source& source) {
    const std::string name = prefix + source.tensor.name;
    return state.find(name) != nullptr || !variable_with_part(state, name).empty();
  };
  const auto has_prefix = [&](const Source& source) { return source.tensor.name.starts_with(prefix); };
  if (prefix.empty() || std::any_of(sources.begin(), sources.end(), has_prefix)) return;
  for (Source& source : sources)
    if (fits(source)) source.tensor.name = prefix + source.tensor.name;
}

// Takes the part of a larger model that has names with `prefix`.
void remove_outer_prefix(const std::string& prefix, std::vector<Source>& sources) {
  const auto has_prefix = [&](const Source& source) { return source.tensor.name.starts_with(prefix); };
  if (prefix.empty() || std::none_of(sources.begin(), sources.end(), has_prefix)) return;
  std::erase_if(sources, [&](const Source& source) { return !has_prefix(source); });
  for (Source& source : sources) source.tensor.name.erase(0, prefix.size());
}

void rename_suffixes(const std::vector<std::pair<std::string, std::string>>& renamed, std::vector<Source>& sources) {
  for (Source& source : sources)
    for (const auto& [from, to] : renamed)
      if (std::string& name = source.tensor.name; name.ends_with(from))
        name.replace(name.size() - from.size(), from.size(), to);
}

// Adds parameters of their own that were tied to others in older files.
void add_formerly_tied(const StateDict& state, const std::vector<std::pair<std::string, std::string>>& tied,
                       std::vector<Source>& sources) {
  const auto find = [&](const std::string& name) {
    return std::find_if(sources.begin(), sources.end(), [&](const Source& one) { return one.tensor.name == name; });
  };
  for (const auto& [name, former] : tied) {
    const auto found = find(former);
    if (state.find(name) == nullptr || found == sources.end() || find(name) != sources.end()) continue;
    Source copy = *found;
    copy.tensor.name = name;
    sources.push_back(std::move(copy));
  }
}

bool same_content(const Source& one, const Source& other) {
  if (one.tensor.type != other.tensor.type || one.places.size() != other.places.size()) return false;
  const Type& type = one.tensor.type;
  const auto all = static_cast<std::uint64_t>(type.element_count()) * dtype_size(type.dtype()) / one.places.size();
  constexpr std::uint64_t kBlock = 1 << 20;
  std::vector<std::byte> left(std::min(all, kBlock)), right(left.size());
  for (std::size_t i = 0; i < one.places.size(); ++i)
    for (std::uint64_t begin = 0; begin < all; begin += kBlock) {
      const auto size = static_cast<std::size_t>(std::min(kBlock, all - begin));
      one.places[i].file->read(one.places[i].offset + begin, std::span(left).first(size));
      other.places[i].file->read(other.places[i].offset + begin, std::span(right).first(size));
      if (!std::equal(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(size), right.begin())) return false;
    }
  return true;
}

// Transformers 5 uses such a tensor, although the configuration ties it.
void warn_of_untied(const StateDict& state, const std::vector<int>& chosen, const std::vector<Source>& sources) {
  if (!is_rank_zero()) return;
  for (int i = 0; i < isize(sources); ++i) {
    const Source& source = at(sources, i);
    const NamedTensor* entry = state.find(source.tensor.name);
    if (entry == nullptr) continue;
    const int used = chosen[static_cast<std::size_t>(entry - state.entries().data())];
    if (used == i || used < 0 || same_content(source, at(sources, used))) continue;
    log_shared_warning(
        "{}: {} is ignored, because the model ties it to {}, which has other values in the file; if the model was "
        "trained untied, set tie_word_embeddings to false in config.json",
        source.places.front().file->path(), source.tensor.name, at(sources, used).tensor.name);
  }
}

ShardReader reader_of(const Source& source) {
  return [places = source.places, stored = source.tensor.type.dtype()](
             const Type& type, const Sharding& sharding, std::int64_t device, std::span<std::byte> shard) {
    const std::int64_t each = type.element_count() / static_cast<std::int64_t>(places.size());
    const Region region = region_of(type, sharding, device);
    const auto size = static_cast<std::int64_t>(dtype_size(type.dtype()));
    for_each_run(region, RegionBuffer::complete(type), RegionBuffer::shard(type, sharding, region),
                 [&](std::int64_t from, std::int64_t to, std::int64_t count) {
                   while (count > 0) {  // a run may extend over several places
                     const Place& place = places[static_cast<std::size_t>(from / each)];
                     const std::int64_t here = std::min(count, each - from % each);
                     read_elements(
                         *place.file, place.offset, from % each, stored, type.dtype(),
                         shard.subspan(static_cast<std::size_t>(to * size), static_cast<std::size_t>(here * size)));
                     from += here, to += here, count -= here;
                   }
                 });
  };
}

std::uint64_t content_of(const Source& source) {
  const Type& type = source.tensor.type;
  const auto bytes = static_cast<std::uint64_t>(type.element_count()) * dtype_size(type.dtype()) / source.places.size();
  std::uint64_t hash = hash_text(type.str());
  for (const Place& place : source.places) hash = hash_mix(hash, content_of_array(*place.file, place.offset, bytes));
  return hash;
}

}  // namespace

LoadStateResult load_pretrained(nn::Module& module, const std::string& folder, const LoadStateOptions& options) {
  const StateDict state = module.state_dict();
  const nn::FileNames names = module.file_names();
  std::vector<Source> sources = sources_in(folder);
  rename_suffixes(names.renamed_suffixes, sources);
  remove_outer_prefix(names.outer_prefix, sources);
  add_prefix(state, names.prefix, sources);
  gather_parts(state, folder, sources);
  add_formerly_tied(state, names.formerly_tied, sources);
  LoadStateOptions with_names = options;
  with_names.ignores = [&](std::string_view name) {
    const bool is_known = std::any_of(names.ignored_suffixes.begin(), names.ignored_suffixes.end(),
                                      [&](const std::string& suffix) { return name.ends_with(suffix); });
    return is_known || (options.ignores && options.ignores(name));
  };
  std::vector<NamedType> given;
  for (const Source& source : sources) given.push_back(source.tensor);
  LoadStateResult result;
  const auto chosen = match_state(state, given, folder, with_names, result);
  warn_of_untied(state, chosen, sources);
  for (std::size_t i = 0; i < chosen.size(); ++i)
    if (chosen[i] >= 0) {
      const Source& source = at(sources, chosen[i]);
      read_when_needed(state.entries()[i].tensor, reader_of(source), content_of(source));
    }
  return result;
}

std::span<const std::string_view> tokenizer_file_names() {
  static constexpr std::array<std::string_view, 7> kNames{
      "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt", "vocab.bpe",
      "vocab.txt"};
  return kNames;
}

void copy_tokenizer(const std::string& from, const std::string& to) {
  std::error_code ignored;
  if (fs::equivalent(from, to, ignored)) return;
  for (const std::string_view name : tokenizer_file_names())
    if (const fs::path path = fs::path(from) / name; fs::is_regular_file(path, ignored))
      write_file((fs::path(to) / name).string(), read_file(path.string()));
}

std::unique_ptr<nn::PretrainedModel> from_pretrained(const std::string& folder, DType dtype) {
  const std::string path = folder + "/config.json";
  auto model = nn::make_model(read_file(path), path, dtype);
  load_pretrained(*model, folder);
  return model;
}

}  // namespace tessera
