// SPDX-License-Identifier: Apache-2.0
// JSON objects as configuration files are made of: typed reads whose errors name file, key and what would be right; keys keep
// their order and those nobody reads are kept when the object is written back.
//
//   JsonObject json = JsonObject::from_file("gpt2.json");
//   json.read("n_embd", config.n_embd);            // left alone when absent
//   json.set("vocab_size", config.vocab_size);     // replaces or appends
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

class JsonObject {
 public:
  /// An empty object; `origin` is what errors call it.
  explicit JsonObject(std::string origin = "JSON");
  /// Errors: no such file, not JSON (with line and column), not an object.
  static JsonObject from_file(const std::string& path);
  static JsonObject parse(std::string_view text, std::string origin = "JSON");
  JsonObject(const JsonObject& other);
  JsonObject(JsonObject&&) noexcept;
  JsonObject& operator=(JsonObject other) noexcept;
  ~JsonObject();

  [[nodiscard]] const std::string& origin() const;
  [[nodiscard]] std::vector<std::string> keys() const;
  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] bool is_null(std::string_view key) const;

  /// Put the value of `key` into `value` and return true; return false, and leave `value` alone, when the key is absent.
  /// Error naming the key when the value has another type or does not fit.
  bool read(std::string_view key, bool& value) const;
  bool read(std::string_view key, std::int64_t& value) const;
  bool read(std::string_view key, int& value) const;
  bool read(std::string_view key, double& value) const;
  bool read(std::string_view key, std::string& value) const;
  /// A single string reads as a list of one.
  bool read(std::string_view key, std::vector<std::string>& value) const;
  bool read(std::string_view key, JsonObject& value) const;
  /// A JSON null reads as no value.
  template <class T>
  bool read(std::string_view key, std::optional<T>& value) const {
    if (!has(key)) return false;
    value.reset();
    if (is_null(key)) return true;
    T inner{};
    read(key, inner);
    value = std::move(inner);
    return true;
  }

  /// Replaces the value of `key`, in its place, or appends the key.
  void set(std::string_view key, bool value);
  void set(std::string_view key, std::int64_t value);
  void set(std::string_view key, int value) { set(key, static_cast<std::int64_t>(value)); }
  void set(std::string_view key, double value);
  void set(std::string_view key, const std::string& value);
  void set(std::string_view key, const char* value) { set(key, std::string(value)); }
  void set(std::string_view key, const std::vector<std::string>& value);
  void set(std::string_view key, const JsonObject& value);
  void set(std::string_view key, const std::vector<JsonObject>& value);
  void set_null(std::string_view key);

  /// Error with the nearest known key when the object has a key that is not in `known`.
  void require_known(const std::vector<std::string>& known) const;

  /// The text, a key a line. Doubles have as many digits as it takes to read them back unchanged; NaN and infinity are written as
  /// Python writes them (`NaN`, `Infinity`).
  [[nodiscard]] std::string str() const;
  /// Writes str() to a temporary file beside `path` and renames it. Error naming the path.
  void save(const std::string& path) const;

 private:
  struct Node;
  std::unique_ptr<Node> node_;
};

}  // namespace tessera
