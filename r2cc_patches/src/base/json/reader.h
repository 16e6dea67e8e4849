// A small JSON reader for the files that Python writes for us. Strict (RFC 8259, no duplicate keys), bounded in depth
// and size; every error and every value knows its line.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace r2cc {

/// Says "LINE: what", or "FILE:LINE: what" when it comes out of readJsonFile.
struct JsonError : std::runtime_error {
  JsonError(int line, const std::string& what)
      : std::runtime_error(std::to_string(line) + ": " + what), line(line), problem(what) {}
  JsonError(const std::string& file, const JsonError& inside)
      : std::runtime_error(file + ":" + inside.what()), line(inside.line), problem(inside.problem) {}
  int line;
  std::string problem;
};

/// One value. The accessors throw JsonError with the value's line when it is of another type; `what` names it there.
class Json {
 public:
  enum class Type : uint8_t { Null, Bool, Number, String, Array, Object };
  using Member = std::pair<std::string, Json>;

  /// Throws JsonError.
  static Json parse(std::string_view text);

  Type type() const { return type_; }
  int line() const { return line_; }
  bool boolean(const std::string& what) const;
  double number(const std::string& what) const;
  /// A number without a fraction, within [least, most].
  int64_t integer(const std::string& what, int64_t least, int64_t most) const;
  const std::string& string(const std::string& what) const;
  const std::vector<Json>& array(const std::string& what) const;
  /// In the file's order.
  const std::vector<Member>& object(const std::string& what) const;
  /// A member of an object, or null.
  const Json* find(std::string_view key) const;
  /// A member that must be there.
  const Json& at(const std::string& key) const;
  /// Throws when an object has a member of another name.
  void allow(const std::vector<std::string_view>& keys) const;

 private:
  friend class JsonParser;
  void want(Type type, const std::string& what) const;

  Type type_ = Type::Null;
  int line_ = 1;
  bool boolean_ = false;
  double number_ = 0;
  std::string string_;
  std::vector<Json> array_;
  std::vector<Member> object_;
};

/// Reads a whole file of at most 1 MiB. Throws JsonError; what() begins with the file.
Json readJsonFile(const std::string& path);

}  // namespace r2cc
