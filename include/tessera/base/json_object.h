// SPDX-License-Identifier: Apache-2.0
// JSON objects of configuration files. Reads are typed; their errors name the file, the key and the expected value.
// Keys keep their order. Keys that are not read are kept when the object is written back.
//
//   JsonObject json = JsonObject::from_file("gpt2.json");
//   json.read("n_embd", config.n_embd);            // no change if the key is absent
//   json.set("vocab_size", config.vocab_size);     // replaces or appends
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// A JSON object, whose keys keep their order.
class JsonObject {
 public:
  /// An empty object. Errors call it `origin`.
  explicit JsonObject(std::string origin = "JSON");
  /// FileErrors: no such file, not JSON (with line and column), not an object.
  static JsonObject from_file(const std::string& path);
  static JsonObject parse(std::string_view text, std::string origin = "JSON");
  /// The same for one line of a file. `place` names the file and the line, so errors add only the column. A lone
  /// surrogate is read as U+FFFD (json.h).
  static JsonObject parse_line(std::string_view line, std::string place);
  JsonObject(const JsonObject& other);
  JsonObject(JsonObject&&) noexcept;
  JsonObject& operator=(JsonObject other) noexcept;
  ~JsonObject();

  [[nodiscard]] const std::string& origin() const;
  [[nodiscard]] std::vector<std::string> keys() const;
  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] bool is_null(std::string_view key) const;
  [[nodiscard]] bool is_bool(std::string_view key) const;
  [[nodiscard]] bool is_string(std::string_view key) const;
  [[nodiscard]] bool is_object(std::string_view key) const;
  /// The value of `key` as text: a string without quotation marks, anything else as JSON on one line. "" if it is
  /// absent.
  [[nodiscard]] std::string text(std::string_view key) const;

  /// Puts the value of `key` into `value` and returns true. If the key is absent, returns false and does not change
  /// `value`. Error, with the key, if the value has another type or does not fit.
  bool read(std::string_view key, bool& value) const;
  bool read(std::string_view key, std::int64_t& value) const;
  bool read(std::string_view key, int& value) const;
  bool read(std::string_view key, double& value) const;
  bool read(std::string_view key, std::string& value) const;
  /// A single string is read as a list of one.
  bool read(std::string_view key, std::vector<std::string>& value) const;
  /// A single integer is read as a list of one.
  bool read(std::string_view key, std::vector<std::int64_t>& value) const;
  bool read(std::string_view key, std::vector<std::vector<std::int64_t>>& value) const;
  bool read(std::string_view key, JsonObject& value) const;
  bool read(std::string_view key, std::vector<JsonObject>& value) const;
  /// A JSON null is read as no value.
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

  /// Replaces the value of `key`, which keeps its position. Appends the key if it is absent.
  void set(std::string_view key, bool value);
  void set(std::string_view key, std::int64_t value);
  void set(std::string_view key, int value) { set(key, static_cast<std::int64_t>(value)); }
  void set(std::string_view key, double value);
  void set(std::string_view key, const std::string& value);
  void set(std::string_view key, const char* value) { set(key, std::string(value)); }
  void set(std::string_view key, const std::vector<std::string>& value);
  void set(std::string_view key, const std::vector<std::int64_t>& value);
  void set(std::string_view key, const JsonObject& value);
  void set(std::string_view key, const std::vector<JsonObject>& value);
  /// Sets `key` to null.
  void set_null(std::string_view key);
  /// Sets `key` to its value in `other`. Error if `other` does not have the key.
  void set_from(std::string_view key, const JsonObject& other);

  /// Error, with the nearest known key, if the object has a key that is not in `known`.
  void require_known(const std::vector<std::string>& known) const;

  /// Returns the text, one key on each line. Doubles have enough digits to read back unchanged. NaN and infinity are
  /// written as in Python (`NaN`, `Infinity`), and parse() reads these words.
  [[nodiscard]] std::string str() const;
  /// Writes str() to a temporary file beside `path` and renames it. Errors name the path.
  void save(const std::string& path) const;

 private:
  struct Node;
  std::unique_ptr<Node> node_;
};

}  // namespace tessera
