// The JSON reader: what it takes, what it refuses and where it says the mistake is.
#include <sys/mman.h>
#include <unistd.h>

#include "base/json/reader.h"
#include "check.h"

using namespace r2cc;

namespace {

std::string refused(const std::string& text) { return THROWN(JsonError, (void)Json::parse(text)); }

std::string nested(int depth) {
  return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
}

}  // namespace

TEST(net_json_values) {
  const Json json = Json::parse(" {\"a\": [1, -0.5, 2e3, true, false, null],\n \"b\": {\"c\": \"x\"}, \"\": []}\r\n");
  const std::vector<Json>& a = json.at("a").array("a");
  CHECK_EQ(a.size(), 6u);
  CHECK(a[0].number("n") == 1 && a[1].number("n") == -0.5 && a[2].integer("n", 0, 5000) == 2000);
  CHECK(a[3].boolean("b") && !a[4].boolean("b") && a[5].type() == Json::Type::Null);
  CHECK_EQ(json.at("b").at("c").string("c"), "x");
  CHECK_EQ(json.at("b").line(), 2);
  CHECK(json.find("d") == nullptr && json.object("o").size() == 3 && json.object("o")[2].first.empty());
}

TEST(net_json_strings) {
  CHECK_EQ(Json::parse(R"("\"\\\/\b\f\n\r\t\u0041\u00e4\u20ac\ud83d\ude00")").string("s"),
           "\"\\/\b\f\n\r\tA\u00e4\u20ac\U0001f600");
  CHECK_EQ(Json::parse("\"\xc3\xa4\"").string("s"), "\xc3\xa4");
  CHECK_EQ(Json::parse("\"\\u0000\"").string("s"), std::string(1, '\0'));
}

TEST(net_json_refuses) {
  CHECK_EQ(refused(""), "1: the text ends where a value should be");
  CHECK_EQ(refused("\n\n{\"a\": 1,}"), "3: a key in double quotes should be here");
  CHECK_EQ(refused("[1,]"), "1: no JSON value begins like this");
  CHECK_EQ(refused("{\"a\": 1\n\"b\": 2}"), "2: ',' or '}' should be here");
  CHECK_EQ(refused("{\"a\" 1}"), "1: ':' should follow key \"a\"");
  CHECK_EQ(refused("{\"a\": 1, \"a\": 2}"), "1: key \"a\" is there twice");
  CHECK_EQ(refused("1 2"), "1: more text after the value");
  CHECK_EQ(refused("\"abc"), "1: a string does not end");
  CHECK_EQ(refused("\"a\nb\""), "1: a control character in a string");
  CHECK_EQ(refused("\"\\x41\""), "1: an escape that JSON does not have");
  CHECK_EQ(refused("\"\\"), "1: an escape that JSON does not have");
  CHECK_EQ(refused("\"\\u00g0\""), "1: \\u needs four hex digits");
  CHECK_EQ(refused("\"\\u12"), "1: \\u needs four hex digits");
  for (const char* half : {"\"\\ud800\"", "\"\\udc00\"", "\"\\ud800\\u0041\""})
    CHECK_EQ(refused(half), "1: half of a surrogate pair");
  for (const char* bad : {"01", "1.", "1e", "-", "1e+", "1e999", "-01"})
    CHECK_EQ(refused(bad), "1: a malformed number");
  for (const char* bad : {"+1", ".5", "nan", "Infinity", "tru", "// c", "'a'", "}", "\x01"}) {
    CHECK_EQ(refused(bad), "1: no JSON value begins like this");
  }
  CHECK_EQ(refused(std::string("1\0", 2)), "1: more text after the value");
}

TEST(net_json_depth) {
  CHECK(Json::parse(nested(33)).type() == Json::Type::Array);
  CHECK_EQ(refused(nested(34)), "1: nested too deep");
  CHECK_EQ(refused(std::string(1000000, '[')), "1: nested too deep");
}

/// Any prefix, and any changed byte, is read or refused; nothing else happens (sanitizers watch).
TEST(net_json_survives_anything) {
  const std::string good = "{\"a\": [1, -2.5e3, \"\\u20ac\\ud83d\\ude00\", true, null], \"b\": {}}";
  int read = 0;
  const auto attempt = [&](const std::string& text) {
    try {
      (void)Json::parse(text);
      read++;
    } catch (const JsonError& error) {
      CHECK_EQ(error.line, 1);
    }
  };
  for (size_t size = 0; size < good.size(); size++) attempt(good.substr(0, size));
  CHECK_EQ(read, 0);
  for (size_t at = 0; at < good.size(); at++) {
    for (const char byte : {'\0', '"', '\\', '{', '}', '[', ']', '9', ',', ' ', '\xff'}) {
      std::string changed = good;
      changed[at] = byte;
      attempt(changed);
    }
  }
  CHECK(read > 10);
}

TEST(net_json_accessors_say_where) {
  const Json json = Json::parse("{\n\"a\": \"x\",\n\"n\": 1.5\n}");
  CHECK_EQ(THROWN(JsonError, (void)json.at("a").number("a")), "2: a must be a number, not a string");
  CHECK_EQ(THROWN(JsonError, (void)json.at("n").integer("n", 0, 9)), "3: n must be a whole number from 0 to 9");
  CHECK_EQ(THROWN(JsonError, (void)Json::parse("10").integer("n", 0, 9)), "1: n must be a whole number from 0 to 9");
  CHECK_EQ(THROWN(JsonError, (void)json.at("b")), "1: key \"b\" is missing");
  CHECK_EQ(THROWN(JsonError, json.allow({"a"})), "3: unknown key \"n\"");
  json.allow({"n", "a", "z"});
}

TEST(net_json_files) {
  CHECK_EQ(THROWN(JsonError, (void)readJsonFile("/nonexistent/x.json")),
           "/nonexistent/x.json:1: cannot be read: No such file or directory");
  CHECK(THROWN(JsonError, (void)readJsonFile("/")).rfind("/:1: ", 0) == 0);
  const int fd = memfd_create("json", MFD_CLOEXEC);
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const std::string text = "{\"a\":\n 1 2}";
  CHECK_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  CHECK_EQ(THROWN(JsonError, (void)readJsonFile(path)), path + ":2: ',' or '}' should be here");
  CHECK_EQ(ftruncate(fd, (1 << 20) + 1), 0);
  CHECK_EQ(THROWN(JsonError, (void)readJsonFile(path)), path + ":1: is larger than 1 MiB");
  close(fd);
}
