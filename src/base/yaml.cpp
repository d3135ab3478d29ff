// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/yaml.h"

#include <yaml.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <optional>
#include <set>

#include "tessera/base/error.h"
#include "tessera/base/files.h"

namespace tessera {
namespace {

namespace json = boost::json;

// Frees the parser and the document.
struct YamlReader {
  yaml_parser_t parser{};
  yaml_document_t document{};
  bool has_document = false;
  YamlReader() { require(yaml_parser_initialize(&parser) == 1, "there is no memory to read YAML"); }
  ~YamlReader() {
    if (has_document) yaml_document_delete(&document);
    yaml_parser_delete(&parser);
  }
  YamlReader(const YamlReader&) = delete;
  YamlReader& operator=(const YamlReader&) = delete;
};

std::string yaml_place(const std::string& origin, const yaml_mark_t& mark) {
  return fmt::format("{}:{}:{}", origin, mark.line + 1, mark.column + 1);
}

template <class T>
std::optional<T> parse_yaml_number(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

json::value scalar_value(const yaml_node_t& node) {
  const std::string text(reinterpret_cast<const char*>(node.data.scalar.value), node.data.scalar.length);
  if (node.data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return json::value(json::string(text));
  const auto is_one_of = [&](std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), text) != words.end();
  };
  if (is_one_of({"", "~", "null", "Null", "NULL"})) return nullptr;
  if (is_one_of({"true", "True", "TRUE"})) return true;
  if (is_one_of({"false", "False", "FALSE"})) return false;
  if (const auto integer = parse_yaml_number<std::int64_t>(text)) return *integer;
  const bool is_numeric = text.find_first_of("0123456789") != std::string::npos;
  if (const auto number = is_numeric ? parse_yaml_number<double>(text) : std::nullopt) return *number;
  return json::value(json::string(text));
}

class YamlConverter {
 public:
  YamlConverter(yaml_document_t& document, const std::string& origin) : document_(document), origin_(origin) {}

  json::value value(int index, int depth) {
    const yaml_node_t& node = *yaml_document_get_node(&document_, index);
    constexpr int kDeepest = 100;
    require(depth < kDeepest, "{}: lists and mappings nest deeper than {}", yaml_place(origin_, node.start_mark),
            kDeepest);
    require(seen_.insert(index).second, "{}: anchors are not supported; write the value again",
            yaml_place(origin_, node.start_mark));
    if (node.type == YAML_SCALAR_NODE) return scalar_value(node);
    if (node.type == YAML_MAPPING_NODE) return mapping(node, depth);
    json::array out;
    for (const yaml_node_item_t* item = node.data.sequence.items.start; item != node.data.sequence.items.top; ++item)
      out.push_back(value(*item, depth + 1));
    return out;
  }

 private:
  json::value mapping(const yaml_node_t& node, int depth) {
    json::object out;
    for (const yaml_node_pair_t* pair = node.data.mapping.pairs.start; pair != node.data.mapping.pairs.top; ++pair) {
      const yaml_node_t& key = *yaml_document_get_node(&document_, pair->key);
      require(key.type == YAML_SCALAR_NODE, "{}: a key must be a text", yaml_place(origin_, key.start_mark));
      const std::string name(reinterpret_cast<const char*>(key.data.scalar.value), key.data.scalar.length);
      require(name != "<<", "{}: merge keys are not supported", yaml_place(origin_, key.start_mark));
      require(!out.contains(name), "{}: the key {} occurs twice", yaml_place(origin_, key.start_mark), name);
      out.emplace(name, value(pair->value, depth + 1));
    }
    return out;
  }

  yaml_document_t& document_;
  const std::string& origin_;
  std::set<int> seen_;
};

[[noreturn]] void fail_to_read(const yaml_parser_t& parser, const std::string& origin) {
  fail("{}: {}", yaml_place(origin, parser.problem_mark),
       parser.problem == nullptr ? "this is no YAML" : parser.problem);
}

}  // namespace

JsonObject parse_yaml(std::string_view text, const std::string& origin) {
  YamlReader reader;
  yaml_parser_set_input_string(&reader.parser, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  if (yaml_parser_load(&reader.parser, &reader.document) != 1) fail_to_read(reader.parser, origin);
  reader.has_document = true;
  const yaml_node_t* root = yaml_document_get_root_node(&reader.document);
  require(root != nullptr && root->type == YAML_MAPPING_NODE, "{}: must be a mapping: lines of the form key: value",
          origin);
  const std::string as_json = json::serialize(YamlConverter(reader.document, origin).value(1, 0));
  yaml_document_delete(&reader.document);
  reader.has_document = false;
  if (yaml_parser_load(&reader.parser, &reader.document) != 1) fail_to_read(reader.parser, origin);
  reader.has_document = true;
  require(yaml_document_get_root_node(&reader.document) == nullptr, "{}: must hold one document, but holds several",
          origin);
  return JsonObject::parse(as_json, origin);
}

JsonObject yaml_from_file(const std::string& path) {
  return reading_file([&] { return parse_yaml(read_file(path), path); });
}

}  // namespace tessera
