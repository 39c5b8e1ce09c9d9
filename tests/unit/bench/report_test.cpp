// Reports: what is kept of samples, the three forms, and what comparing two of them says (E8).
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "bench/report/compare.h"
#include "bench/report/sweep.h"

namespace warpline::bench {
namespace {

Figure figure(const std::string& id, std::vector<double> values, bool higher = false, const char* unit = "us") {
    const std::string section = id.substr(0, id.find('/'));
    return {.id = id,
            .section = section,
            .title = "the " + id,
            .unit = unit,
            .higher_is_better = higher,
            .verified = "all",
            .values = percentiles(std::move(values))};
}

Report example() {
    Report report;
    report.version = "0.1.0";
    report.date = "2026-11-23T12:00:00Z";
    report.command = "warpline-bench report --server \"a&b\"";
    report.target = "server <b>:1";
    report.device = "a device";
    report.seconds = 12.5;
    report.machine = {"a processor", "a kernel", "cubic", 2, uint64_t{8} << 30, 0.25};
    report.figures.push_back(figure("limits/tls-round-trip", {10, 20, 30}));
    report.figures.push_back(figure("limits/tls-bulk", {2, 2, 2}, true, "GB/s"));
    report.figures.push_back(figure("latency/synchronize", {30, 40, 20, 25, 35}));
    report.figures.back().limit = "limits/tls-round-trip";
    for (const double bytes : {4096.0, 1048576.0}) {
        report.figures.push_back(
            figure("bandwidth/to-device/pageable/random/" + bytes_in_words(bytes), {bytes / 1e6, bytes / 1e6}, true, "GB/s"));
        Figure& copy = report.figures.back();
        copy.series = "to the device, pageable", copy.x = bytes, copy.limit = "limits/tls-bulk";
    }
    report.figures.push_back(
        {.id = "start/total", .section = "start", .title = "all of it", .unit = "ms", .error = "no \"server\""});
    return report;
}

TEST(ReportTest, e8_few_samples_are_kept_and_of_many_their_percentiles) {
    EXPECT_EQ(percentiles({3, 1, 2}), (std::vector<double>{1, 2, 3}));
    std::vector<double> many(10001);
    std::iota(many.rbegin(), many.rend(), 0);
    const std::vector<double> kept = percentiles(many);
    ASSERT_EQ(kept.size(), 101u);
    for (size_t i = 0; i < kept.size(); ++i) EXPECT_DOUBLE_EQ(kept[i], 100.0 * static_cast<double>(i));
    const Figure all = figure("a/b", many);
    EXPECT_DOUBLE_EQ(all.median(), 5000);
    EXPECT_DOUBLE_EQ(all.at(0.99), 9900);
    EXPECT_DOUBLE_EQ(figure("a/b", {1, 2}).median(), 1.5);
}

TEST(ReportTest, e8_json_says_all_and_is_read_back) {
    const Report report = example();
    const auto again = from_json(to_json(report));
    ASSERT_TRUE(again.ok()) << again.error().what;
    EXPECT_EQ(to_json(*again), to_json(report));
    EXPECT_EQ(again->command, report.command);
    EXPECT_EQ(again->machine.memory_bytes, report.machine.memory_bytes);
    EXPECT_DOUBLE_EQ(again->find("latency/synchronize")->median(), 30);
    EXPECT_DOUBLE_EQ(again->of_limit(*again->find("latency/synchronize")).value(), 1.5);
    EXPECT_EQ(again->find("start/total"), nullptr);  // it has no value
}

TEST(ReportTest, e8_what_is_no_report_is_refused) {
    for (const char* text :
         {"", "[]", "{", R"({"schema":"warpline-bench-report/2"})", R"({"schema":"warpline-bench-report/1"})"})
        EXPECT_EQ(from_json(text).error().code, Code::malformed) << text;
    std::string empty = to_json(example());
    const size_t error = empty.find("\"error\"");
    EXPECT_EQ(from_json(empty.replace(error, 7, "\"other\"")).error().code, Code::malformed);
}

TEST(ReportTest, e8_csv_has_a_line_for_each_figure) {
    const std::string csv = to_csv(example());
    EXPECT_NE(csv.find("latency/synchronize,us,lower,20,30,39.8,40,limits/tls-round-trip,1.5,\"all\",\n"), std::string::npos)
        << csv;
    EXPECT_NE(csv.find("start/total,ms,lower,,,,,,,,\"no \"\"server\"\"\"\n"), std::string::npos) << csv;
    EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + static_cast<ptrdiff_t>(example().figures.size()));
}

TEST(ReportTest, e8_the_page_shows_what_was_measured_and_needs_nothing_else) {
    const std::string html = to_html(example());
    for (const char* part : {"server &lt;b&gt;:1", "--server &quot;a&amp;b&quot;", "no &quot;server&quot;", "30.0 µs", "1.50 ×",
                             "<polyline", "4 KiB", "Beside others", "prefers-color-scheme: dark"})
        EXPECT_NE(html.find(part), std::string::npos) << part;
    for (const char* part : {"<script", "http:", "https:", "url(", "nan", "inf\""})
        EXPECT_EQ(html.find(part), std::string::npos) << part;
}

TEST(ReportTest, e8_numbers_are_written_for_people) {
    EXPECT_EQ(with_unit(0.0123, "GB/s"), "0.012 GB/s");
    EXPECT_EQ(with_unit(1.234, "us"), "1.23 µs");
    EXPECT_EQ(with_unit(9.996, "ms"), "10.0 ms");
    EXPECT_EQ(with_unit(1234567, ""), "1,234,567");
    EXPECT_EQ(with_unit(123456.7, "steps/s"), "123,457 steps/s");
    EXPECT_EQ(right_aligned("1 µs", 6), "  1 µs");
    EXPECT_EQ(bytes_in_words(268435456), "256 MiB");
}

TEST(CostModelTest, e8_a_link_adds_its_waits_and_sets_the_rate) {
    const LinkCosts alone{.wait_ms = 0.1, .step_ms = 2, .start_ms = 20, .to_device_gb_s = 2, .from_device_gb_s = 0.05};
    const LinkCosts slow = alone.on(10, 1e9, 1e8);  // 0.125 GB/s
    EXPECT_DOUBLE_EQ(slow.wait_ms, 10.1);
    EXPECT_DOUBLE_EQ(slow.step_ms, 12);  // 64 KiB take less than what the device does
    EXPECT_DOUBLE_EQ(slow.start_ms, 90);
    EXPECT_NEAR(slow.to_device_gb_s, 0.1 / 0.81, 1e-9);    // 800 ms on the link, 10 ms there and back
    EXPECT_NEAR(slow.from_device_gb_s, 0.1 / 2.01, 1e-9);  // the device is slower than the link
    EXPECT_NEAR(alone.on(0, 1e7, 1).step_ms, 65536 * 8 / 1e4, 1e-9);
    EXPECT_DOUBLE_EQ(alone.on(0, 0, 1e8).to_device_gb_s, 2);
}

TEST(CompareTest, e8_a_change_is_beyond_the_spread_in_both_reports) {
    Report before, after;
    before.figures = {figure("a/slower", {10, 11, 12, 13, 14}), figure("a/within", {10, 11, 12, 13, 30}),
                      figure("a/rate", {5, 5, 5}, true), figure("a/gone", {1, 1})};
    after.figures = {figure("a/slower", {20, 21, 22, 23, 24}), figure("a/within", {11, 12, 12.5, 13, 14}),
                     figure("a/rate", {10, 10, 10}, true)};
    const auto all = differences(before, after);
    ASSERT_EQ(all.size(), 3u);
    EXPECT_TRUE(all[0].beyond);
    EXPECT_DOUBLE_EQ(all[0].worse, 22.0 / 12);
    EXPECT_FALSE(all[1].beyond);
    EXPECT_TRUE(all[2].beyond);
    EXPECT_DOUBLE_EQ(all[2].worse, 0.5);  // twice the rate
}

/// Files of reports, gone at the end.
class CompareCommandTest : public testing::Test {
protected:
    void SetUp() override {
        m_folder = testing::TempDir() + "/compare." + std::to_string(::getpid());
        std::filesystem::create_directory(m_folder);
    }
    void TearDown() override { std::filesystem::remove_all(m_folder); }

    std::string file(const char* name, const std::string& text) {
        const std::string path = m_folder + "/" + name;
        std::ofstream(path) << text;
        return path;
    }
    int exit_code(const Report& after, double threshold) {
        CompareOptions options;
        options.before = file("before.json", to_json(example()));
        options.after = file("after.json", to_json(after));
        options.threshold_percent = threshold;
        testing::internal::CaptureStdout();
        const int code = compare(options);
        m_printed = testing::internal::GetCapturedStdout();
        return code;
    }
    std::string m_folder, m_printed;
};

TEST_F(CompareCommandTest, e8_the_same_is_no_change) {
    EXPECT_EQ(exit_code(example(), 10), 0);
    EXPECT_NE(m_printed.find("5 figures: 0 slower and 0 faster"), std::string::npos) << m_printed;
}

TEST_F(CompareCommandTest, e8_slower_than_the_threshold_fails) {
    Report slower = example();
    slower.figures[2] = figure("latency/synchronize", {40, 41, 42, 43});
    EXPECT_EQ(exit_code(slower, 10), 1);
    EXPECT_NE(m_printed.find("SLOWER"), std::string::npos) << m_printed;
    EXPECT_EQ(exit_code(slower, 50), 0);
    EXPECT_EQ(m_printed.find("SLOWER"), std::string::npos) << m_printed;
}

TEST_F(CompareCommandTest, e8_a_lower_rate_is_slower_and_a_higher_one_faster) {
    Report other = example();
    other.figures[1] = figure("limits/tls-bulk", {1, 1, 1}, true, "GB/s");
    EXPECT_EQ(exit_code(other, 10), 1);
    other.figures[1] = figure("limits/tls-bulk", {4, 4, 4}, true, "GB/s");
    EXPECT_EQ(exit_code(other, 10), 0);
    EXPECT_NE(m_printed.find("faster"), std::string::npos) << m_printed;
}

TEST_F(CompareCommandTest, e8_a_figure_that_is_missing_fails) {
    Report fewer = example();
    fewer.figures[2].values.clear();
    fewer.figures[2].error = "it failed";
    EXPECT_EQ(exit_code(fewer, 10), 1);
    EXPECT_NE(m_printed.find("latency/synchronize"), std::string::npos) << m_printed;
    fewer.quick = true;  // has fewer anyway
    EXPECT_EQ(exit_code(fewer, 10), 0);
}

TEST_F(CompareCommandTest, e8_what_cannot_be_compared_says_so) {
    CompareOptions options;
    options.before = file("before.json", to_json(example()));
    testing::internal::CaptureStderr();
    for (const std::string& after :
         {m_folder + "/none.json", file("text.json", "no report"), file("empty.json", to_json(Report()))}) {
        options.after = after;
        EXPECT_EQ(compare(options), 2) << after;
    }
    EXPECT_NE(testing::internal::GetCapturedStderr().find("no figure in common"), std::string::npos);
}

}  // namespace
}  // namespace warpline::bench
