// Asks the questions, and writes the answers as JSON.
#include "tests/gpu/probe/runner.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

namespace warpline::probe {

namespace {

using Batch = std::span<const Question* const>;

std::string object(const std::vector<std::pair<std::string, std::string>>& members) {
    std::string text = "{";
    for (const auto& [name, json] : members) text += (text.size() > 1 ? ", " : "") + quoted(name) + ": " + json;
    return text + "}";
}

std::string answer(const std::string& result, const std::vector<std::pair<std::string, std::string>>& values) {
    std::vector<std::pair<std::string, std::string>> members = {{"result", result}};
    if (!values.empty()) members.emplace_back("values", object(values));
    return object(members);
}

/// A message to the parent: a length, then the text. Empty text: "the next question begins".
void tell(int pipe, const std::string& text) {
    const auto size = static_cast<uint32_t>(text.size());
    std::string message(sizeof size, '\0');
    std::memcpy(message.data(), &size, sizeof size);
    message += text;
    size_t sent = 0;
    while (sent < message.size()) {
        ssize_t wrote = ::write(pipe, message.data() + sent, message.size() - sent);
        if (wrote <= 0) std::_Exit(3);
        sent += static_cast<size_t>(wrote);
    }
}

std::string ask_one(const Question& question, const Driver& driver, Fixtures& fixtures, bool& healthy) {
    Asker asker(driver, fixtures);
    std::string result;
    try {
        result = std::to_string(question.body(asker));
    } catch (const Missing& missing) {
        asker.text("symbol", missing.symbol);
        result = quoted("missing");
    } catch (const NoFixture& none) {
        asker.text("what", none.what);
        asker.value("error", none.result);
        result = quoted("no fixture");
    }
    if (question.stage == Stage::context) {
        const int after = fixtures.restore();
        healthy = after == CUDA_SUCCESS;
        if (!healthy) asker.value("context_after", after);
    }
    return answer(result, asker.values());
}

[[noreturn]] void answer_all(Batch group, const RunOptions& options, int pipe) {
    if (!options.keep_stderr) {
        const int null = ::open("/dev/null", O_WRONLY);
        ::dup2(null, STDERR_FILENO);
        ::dup2(null, STDOUT_FILENO);
    }
    Driver driver(options.driver);
    Fixtures fixtures(driver);
    bool healthy = true;
    for (const Question* question : group) {
        tell(pipe, "");
        try {
            if (question == group.front() && question->stage != Stage::loaded) made("cuInit", WL_CU(driver, cuInit)(0));
            if (question == group.front() && question->stage == Stage::context) fixtures.context();
        } catch (const NoFixture& none) {
            tell(pipe, answer(quoted("no fixture"), {{"what", quoted(none.what)}, {"error", std::to_string(none.result)}}));
            std::_Exit(0);
        }
        tell(pipe, ask_one(*question, driver, fixtures, healthy));
        if (!healthy) std::_Exit(0);  // the next ones deserve a context that works
    }
    ::close(pipe);
    std::exit(0);
}

/// One child, as its parent sees it.
class Child {
public:
    Child(Batch group, const RunOptions& options) {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
        std::fflush(nullptr);
        m_pid = ::fork();
        if (m_pid == 0) {
            ::close(ends[0]);
            answer_all(group, options, ends[1]);
        }
        ::close(ends[1]);
        m_pipe = ends[0];
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    enum class Got { message, end, late };
    Got read(std::string& text, int seconds) {
        uint32_t size = 0;
        if (Got got = fill(&size, sizeof size, seconds); got != Got::message) return got;
        text.resize(size);
        return size == 0 ? Got::message : fill(text.data(), size, seconds);
    }

    /// Waits for its end, which is made to come within the limit. Returns the status of waitpid.
    int finish(int seconds, bool kill_now) {
        if (kill_now) {
            ::kill(m_pid, SIGKILL);
        } else {
            // What it does at its end counts for nothing, but it gets the time to do it: the pipe closes with the process.
            char byte = 0;
            if (fill(&byte, 1, seconds) == Got::late) ::kill(m_pid, SIGKILL);
        }
        ::close(m_pipe);
        int status = 0;
        ::waitpid(m_pid, &status, 0);
        return status;
    }

private:
    Got fill(void* to, size_t size, int seconds) {
        size_t have = 0;
        while (have < size) {
            pollfd waiting{.fd = m_pipe, .events = POLLIN, .revents = 0};
            if (::poll(&waiting, 1, seconds * 1000) == 0) return Got::late;
            ssize_t got = ::read(m_pipe, static_cast<char*>(to) + have, size - have);
            if (got <= 0) return Got::end;
            have += static_cast<size_t>(got);
        }
        return Got::message;
    }

    pid_t m_pid = -1;
    int m_pipe = -1;
};

/// Asks a group in one child for as long as that lives. Returns how many were answered, at least one.
size_t ask_in_child(Batch group, const RunOptions& options, Answers& answers) {
    Child child(group, options);
    size_t answered = 0;
    bool asked = false;  // the question is under way
    std::string text;
    for (;;) {
        const Child::Got got = child.read(text, options.seconds);
        if (got == Child::Got::message) {
            if (text.empty()) {
                asked = true;
            } else {
                answers[group[answered++]->id] = text;
                asked = false;
            }
            if (answered < group.size()) continue;
            child.finish(options.seconds, false);
            return answered;
        }
        const bool late = got == Child::Got::late;
        const int status = child.finish(options.seconds, late);
        if (asked || answered == 0) {
            std::string& place = answers[group[answered++]->id];
            if (late) {
                place = answer(quoted("hang"), {});
            } else if (WIFSIGNALED(status)) {
                place = answer(quoted("crash"), {{"signal", std::to_string(WTERMSIG(status))}});
            } else {
                place = answer(quoted("exit"), {{"code", std::to_string(WEXITSTATUS(status))}});
            }
        }
        return answered;
    }
}

}  // namespace

bool driver_loads(const RunOptions& options) {
    const pid_t child = ::fork();
    if (child == 0) {
        Driver driver(options.driver);
        std::_Exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Answers ask(const Questions& questions, const RunOptions& options) {
    Answers answers;
    size_t next = 0;
    while (next < questions.size()) {
        std::vector<const Question*> group = {&questions[next]};
        while (!group.front()->group.empty() && next + group.size() < questions.size()) {
            const Question& candidate = questions[next + group.size()];
            if (candidate.group != group.front()->group || candidate.stage != group.front()->stage) break;
            group.push_back(&candidate);
        }
        next += group.size();
        Batch left(group);
        while (!left.empty()) left = left.subspan(ask_in_child(left, options, answers));
    }
    return answers;
}

}  // namespace warpline::probe
