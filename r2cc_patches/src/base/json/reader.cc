#include "base/json/reader.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

namespace r2cc {
namespace {

constexpr int kDeepest = 32;
constexpr size_t kLargestFile = 1 << 20;

const char* name(Json::Type type) {
  static constexpr const char* kNames[] = {"null", "true or false", "a number", "a string", "an array", "an object"};
  return kNames[static_cast<size_t>(type)];
}

void appendUtf8(std::string& out, uint32_t c) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) return put(0xc0 | c >> 6), put(0x80 | (c & 0x3f));
  if (c < 0x10000) return put(0xe0 | c >> 12), put(0x80 | (c >> 6 & 0x3f)), put(0x80 | (c & 0x3f));
  put(0xf0 | c >> 18), put(0x80 | (c >> 12 & 0x3f)), put(0x80 | (c >> 6 & 0x3f)), put(0x80 | (c & 0x3f));
}

}  // namespace

/// Recursive descent; `at_` is the next character, `line_` its line.
class JsonParser {
 public:
  explicit JsonParser(std::string_view text) : text_(text) {}

  Json whole() {
    Json value = any(0);
    blanks();
    if (at_ < text_.size()) fail("more text after the value");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw JsonError(line_, what); }
  bool more() const { return at_ < text_.size(); }
  char peek() const { return more() ? text_[at_] : '\0'; }

  void blanks() {
    for (; more() && strchr(" \t\r\n", text_[at_]) != nullptr && text_[at_] != '\0'; at_++) line_ += text_[at_] == '\n';
  }
  bool take(char c) {
    if (!more() || text_[at_] != c) return false;
    at_++;
    return true;
  }
  bool word(std::string_view w) {
    if (text_.substr(at_, w.size()) != w) return false;
    at_ += w.size();
    return true;
  }

  Json any(int depth) {
    if (depth > kDeepest) fail("nested too deep");
    blanks();
    if (!more()) fail("the text ends where a value should be");
    Json value;
    value.line_ = line_;
    if (take('{')) return members(value, depth), value;
    if (take('[')) return items(value, depth), value;
    if (peek() == '"') return value.type_ = Json::Type::String, value.string_ = text(), value;
    if (word("null")) return value;
    value.type_ = Json::Type::Bool;
    if (word("true")) return value.boolean_ = true, value;
    if (word("false")) return value;
    value.type_ = Json::Type::Number;
    value.number_ = number();
    return value;
  }

  void members(Json& value, int depth) {
    value.type_ = Json::Type::Object;
    blanks();
    if (take('}')) return;
    do {
      blanks();
      if (peek() != '"') fail("a key in double quotes should be here");
      std::string key = text();
      if (value.find(key) != nullptr) fail("key \"" + key + "\" is there twice");
      blanks();
      if (!take(':')) fail("':' should follow key \"" + key + "\"");
      value.object_.emplace_back(std::move(key), any(depth + 1));
      blanks();
    } while (take(','));
    if (!take('}')) fail("',' or '}' should be here");
  }

  void items(Json& value, int depth) {
    value.type_ = Json::Type::Array;
    blanks();
    if (take(']')) return;
    do {
      value.array_.push_back(any(depth + 1));
      blanks();
    } while (take(','));
    if (!take(']')) fail("',' or ']' should be here");
  }

  /// Stands at the opening quote.
  std::string text() {
    std::string out;
    at_++;
    while (true) {
      if (!more()) fail("a string does not end");
      const char c = text_[at_++];
      if (c == '"') return out;
      if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
      if (c == '\\') {
        escape(out);
      } else {
        out.push_back(c);
      }
    }
  }

  void escape(std::string& out) {
    static constexpr std::string_view kFrom = "\"\\/bfnrt";
    static constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    const char c = peek();
    at_++;
    const size_t simple = c == '\0' ? std::string_view::npos : kFrom.find(c);
    if (simple != std::string_view::npos) return out.push_back(kTo[simple]);
    if (c != 'u') fail("an escape that JSON does not have");
    uint32_t code = hex4();
    if (code >= 0xdc00 && code < 0xe000) fail("half of a surrogate pair");
    if (code >= 0xd800 && code < 0xdc00) {
      if (!word("\\u")) fail("half of a surrogate pair");
      const uint32_t low = hex4();
      if (low < 0xdc00 || low >= 0xe000) fail("half of a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    appendUtf8(out, code);
  }

  uint32_t hex4() {
    uint32_t code = 0;
    const std::string_view digits = text_.substr(at_, 4);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 4 || error != std::errc() || end != digits.data() + 4) fail("\\u needs four hex digits");
    at_ += 4;
    return code;
  }

  /// Checked against JSON's grammar first: the library's own is wider.
  double number() {
    const size_t start = at_;
    const auto digits = [this] {
      const size_t from = at_;
      while (peek() >= '0' && peek() <= '9') at_++;
      return at_ - from;
    };
    take('-');
    const bool zero = peek() == '0';
    const size_t whole = digits();
    if (whole == 0 && at_ == start) fail("no JSON value begins like this");
    bool ok = whole > 0 && !(zero && whole > 1);
    if (take('.')) ok &= digits() > 0;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      ok &= digits() > 0;
    }
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data() + start, text_.data() + at_, value);
    if (!ok || error != std::errc() || end != text_.data() + at_) fail("a malformed number");
    return value;
  }

  const std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

Json Json::parse(std::string_view text) { return JsonParser(text).whole(); }

void Json::want(Type type, const std::string& what) const {
  if (type_ != type) throw JsonError(line_, what + " must be " + name(type) + ", not " + name(type_));
}
bool Json::boolean(const std::string& what) const { return want(Type::Bool, what), boolean_; }
double Json::number(const std::string& what) const { return want(Type::Number, what), number_; }
const std::string& Json::string(const std::string& what) const { return want(Type::String, what), string_; }
const std::vector<Json>& Json::array(const std::string& what) const { return want(Type::Array, what), array_; }
const std::vector<Json::Member>& Json::object(const std::string& what) const {
  return want(Type::Object, what), object_;
}

int64_t Json::integer(const std::string& what, int64_t least, int64_t most) const {
  const double value = number(what);
  if (value != std::floor(value) || value < static_cast<double>(least) || value > static_cast<double>(most)) {
    throw JsonError(line_,
                    what + " must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return static_cast<int64_t>(value);
}

const Json* Json::find(std::string_view key) const {
  const auto it = std::find_if(object_.begin(), object_.end(), [&](const Member& m) { return m.first == key; });
  return it == object_.end() ? nullptr : &it->second;
}

const Json& Json::at(const std::string& key) const {
  const Json* found = find(key);
  if (found == nullptr) throw JsonError(line_, "key \"" + key + "\" is missing");
  return *found;
}

void Json::allow(const std::vector<std::string_view>& keys) const {
  for (const Member& member : object_) {
    if (std::find(keys.begin(), keys.end(), member.first) != keys.end()) continue;
    throw JsonError(member.second.line_, "unknown key \"" + member.first + "\"");
  }
}

Json readJsonFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kLargestFile + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  try {
    if (!file.is_open() || file.bad()) throw JsonError(1, std::string("cannot be read: ") + strerror(errno));
    if (text.size() > kLargestFile) throw JsonError(1, "is larger than 1 MiB");
    return Json::parse(text);
  } catch (const JsonError& error) {
    throw JsonError(path, error);
  }
}

}  // namespace r2cc
