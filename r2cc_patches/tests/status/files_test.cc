// Status files and control folders as files: what is in the way of them, and what is not believed.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "check.h"
#include "scratch.h"
#include "status/control_folder.h"
#include "status/status_file.h"

using namespace r2cc;
using r2cc::check::Scratch;
namespace fs = std::filesystem;

namespace {

using Said = std::vector<std::string>;

std::string content(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

void put(const std::string& path, const std::string& text, mode_t mode = 0644) {
  std::ofstream(path) << text;
  CHECK_EQ(chmod(path.c_str(), mode), 0);
}

std::string drain(const std::string& host, const std::string& nic, const std::string& until = "null") {
  return R"({"schema": 1, "host": ")" + host + R"(", "nic": ")" + nic + R"(", "until_unix_s": )" + until + "}\n";
}

/// A control folder of host h1 with NICs eth0 and eth1 (mlx5_1).
struct Control {
  Scratch scratch;
  Said said;
  ControlFolder folder{
      scratch.path(), {"h1.site", "h1"}, {{"eth0"}, {"eth1", "mlx5_1"}}, [this](const std::string& text) {
        said.push_back(text);
      }};
  /// What a folder with just this file asks for.
  uint32_t asks(const std::string& name, const std::string& text, mode_t mode = 0644) {
    put(scratch / name, text, mode);
    const uint32_t nics = folder.read();
    fs::remove(scratch / name);
    return nics;
  }
};

}  // namespace

TEST(status_file_is_whole_and_in_a_folder_of_its_own_making) {
  const Scratch scratch;
  Said said;
  StatusFile file(scratch / "made", "h0-1", [&](const std::string& text) { said.push_back(text); });
  file.write("first");
  file.write("second");
  CHECK_EQ(content(scratch / "made/h0-1.json"), "second");
  CHECK_EQ(std::distance(fs::directory_iterator(scratch / "made"), {}), 1);
  file.remove();
  CHECK(fs::is_empty(scratch / "made"));
  CHECK(said.empty());
}

TEST(status_file_that_cannot_be_written_is_said_once_and_tried_again) {
  const Scratch scratch;
  Said said;
  put(scratch / "folder", "a file where the folder should be");
  StatusFile file(scratch / "folder", "h0-1", [&](const std::string& text) { said.push_back(text); });
  for (int n = 0; n < 3; n++) file.write("text");
  CHECK_EQ(said.size(), 1U);
  CHECK(said[0].find("R2CC_STATUS_DIR=" + scratch.path() + "/folder: Not a directory") != std::string::npos);
  fs::remove(scratch / "folder");
  file.write("text");
  CHECK_EQ(content(scratch / "folder/h0-1.json"), "text");
}

TEST(status_file_follows_no_link_that_somebody_laid_there) {
  const Scratch scratch;
  put(scratch / "precious", "kept");
  fs::create_symlink(scratch / "precious", scratch / ".h0-1.new");
  fs::create_symlink(scratch / "precious", scratch / "h0-1.json");
  StatusFile file(scratch.path(), "h0-1", [](const std::string& /*text*/) {});
  file.write("text");
  CHECK_EQ(content(scratch / "precious"), "kept");
  CHECK_EQ(content(scratch / "h0-1.json"), "text");
}

TEST(control_folder_names_nics_of_this_host_by_either_name) {
  Control c;
  CHECK_EQ(c.asks("drain-h1-eth0.json", drain("h1", "eth0")), 1U);
  CHECK_EQ(c.asks("drain-h1-mlx5_1.json", drain("h1.site", "mlx5_1")), 2U);
  CHECK_EQ(c.asks("drain-h2-eth0.json", drain("h2", "eth0")), 0U);
  CHECK_EQ(c.asks("drain-h1-eth0.json", drain("h1", "eth0", "1")), 0U);  // until long ago
  CHECK_EQ(c.asks("drain-h1-eth0.json", drain("h1", "eth0", "99999999999")), 1U);
  CHECK_EQ(c.asks("notes.txt", drain("h1", "eth0")), 0U);
  CHECK(c.said.empty());
}

TEST(control_folder_believes_no_file_that_others_could_have_written) {
  Control c;
  CHECK_EQ(c.asks("drain-a.json", drain("h1", "eth0"), 0666), 0U);
  CHECK_EQ(c.asks("drain-b.json", drain("h1", "eth0"), 0664), 0U);
  put(c.scratch / "elsewhere", drain("h1", "eth0"));
  fs::create_symlink(c.scratch / "elsewhere", c.scratch / "drain-c.json");
  CHECK_EQ(c.folder.read(), 0U);
  fs::remove(c.scratch / "drain-c.json");
  CHECK_EQ(mkfifo((c.scratch / "drain-d.json").c_str(), 0600), 0);
  CHECK_EQ(c.folder.read(), 0U);  // and waits for nobody
  fs::remove(c.scratch / "drain-d.json");
  CHECK_EQ(c.said.size(), 4U);
  CHECK(c.said[0].find("others may write to it") != std::string::npos);
  CHECK(c.said[3].find("not a plain file") != std::string::npos);
}

TEST(control_folder_says_once_what_is_wrong_with_a_file) {
  Control c;
  for (int n = 0; n < 3; n++) CHECK_EQ(c.asks("drain-a.json", "{\"schema\": 1, \"host\": \"h1\""), 0U);
  CHECK_EQ(c.said.size(), 1U);
  CHECK_EQ(c.asks("drain-b.json", R"({"schema": 2})"), 0U);
  CHECK(c.said.back().find("another version of R2CC (schema 2)") != std::string::npos);
  CHECK_EQ(c.asks("drain-c.json", drain("h1", "eth7")), 0U);
  CHECK(c.said.back().find("has no NIC eth7") != std::string::npos);
  for (int n = 0; n < 100; n++) CHECK_EQ(c.asks("drain-" + std::to_string(n) + ".json", "no"), 0U);
  CHECK(c.said.size() <= 16);
}

TEST(control_folder_in_which_others_may_remove_files_asks_for_nothing) {
  Control c;
  put(c.scratch / "drain-a.json", drain("h1", "eth0"));
  CHECK_EQ(c.folder.read(), 1U);
  CHECK_EQ(chmod(c.scratch.path().c_str(), 0777), 0);
  CHECK_EQ(c.folder.read(), 0U);
  CHECK_EQ(c.said.size(), 1U);
  CHECK(c.said[0].find("others may remove its files") != std::string::npos);
  CHECK_EQ(chmod(c.scratch.path().c_str(), 01777), 0);  // as /run/r2cc is: each removes but their own
  CHECK_EQ(c.folder.read(), 1U);
}

TEST(control_folder_that_cannot_be_read_now_asks_for_what_it_asked_for) {
  const Scratch scratch;
  const std::string path = scratch / "control";
  Said said;
  ControlFolder folder(path, {"h1"}, {{"eth0"}}, [&](const std::string& text) { said.push_back(text); });
  fs::create_directory(path);
  put(path + "/drain-a.json", drain("h1", "eth0"));
  CHECK_EQ(folder.read(), 1U);
  fs::rename(path, path + ".away");
  put(path, "no folder");
  CHECK_EQ(folder.read(), 1U);
  CHECK_EQ(said.size(), 1U);
  fs::remove(path);
  CHECK_EQ(folder.read(), 0U);
}

TEST(control_folder_that_is_missing_asks_for_nothing) {
  Said said;
  ControlFolder folder("/nonexistent/r2cc", {"h1"}, {{"eth0"}}, [&](const std::string& text) { said.push_back(text); });
  CHECK_EQ(folder.read(), 0U);
  CHECK(said.empty());
}
