// Answers that are kept: which questions are the same, and what is forgotten.
#include "client/state/answers.h"

#include <gtest/gtest.h>

namespace warpline::client {
namespace {

using cuda::CallId;

constexpr CallId k_call = CallId::cuDeviceGetTexture1DLinearMaxWidth;

CUresult ask(Answers<int>& answers, const Bytes& question, int told, int& answer) {
    return answers.get(question, answer, [&](int& out) {
        out = told;
        return CUDA_SUCCESS;
    });
}

TEST(Answers, TheSameQuestionIsAskedOnce) {
    Answers<int> answers;
    int answer = 0;
    EXPECT_EQ(ask(answers, question_of(k_call, 1u, 2), 7, answer), CUDA_SUCCESS);
    EXPECT_EQ(ask(answers, question_of(k_call, 1u, 2), 8, answer), CUDA_SUCCESS);
    EXPECT_EQ(answer, 7);
    EXPECT_EQ(ask(answers, question_of(k_call, 1u, 3), 9, answer), CUDA_SUCCESS);
    EXPECT_EQ(answer, 9);
}

TEST(Answers, QuestionsDifferWhereTheirPartsDo) {
    const Bytes ab = {std::byte{1}, std::byte{2}}, a = {std::byte{1}}, b = {std::byte{2}};
    EXPECT_NE(question_of(k_call, BytesView(ab), BytesView()), question_of(k_call, BytesView(a), BytesView(b)));
    EXPECT_NE(question_of(k_call, 1), question_of(CallId::cuDeviceGetExecAffinitySupport, 1));
    EXPECT_EQ(question_of(k_call, std::string_view("x"), 1), question_of(k_call, std::string_view("x"), 1));
}

TEST(Answers, ARefusalIsNotKept) {
    Answers<int> answers;
    int answer = 0;
    const auto refuse = [](int&) { return CUDA_ERROR_INVALID_VALUE; };
    EXPECT_EQ(answers.get(question_of(k_call), answer, refuse), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(ask(answers, question_of(k_call), 5, answer), CUDA_SUCCESS);
    EXPECT_EQ(answer, 5);
}

TEST(Answers, WhatWasAskedBeforeAChangeIsNotKept) {
    Answers<int> answers;
    int answer = 0;
    const auto overtaken = [&](int& out) {
        answers.forget();
        out = 1;
        return CUDA_SUCCESS;
    };
    EXPECT_EQ(answers.get(question_of(k_call), answer, overtaken), CUDA_SUCCESS);
    EXPECT_EQ(answer, 1);
    EXPECT_EQ(ask(answers, question_of(k_call), 2, answer), CUDA_SUCCESS);
    EXPECT_EQ(answer, 2);
}

TEST(Answers, NoMoreThanSoManyAreKept) {
    Answers<int> answers;
    int answer = 0;
    for (size_t i = 0; i <= Answers<int>::k_most; ++i) EXPECT_EQ(ask(answers, question_of(k_call, i), 1, answer), CUDA_SUCCESS);
    EXPECT_EQ(ask(answers, question_of(k_call, size_t{0}), 2, answer), CUDA_SUCCESS);
    EXPECT_EQ(answer, 1);
    EXPECT_EQ(ask(answers, question_of(k_call, Answers<int>::k_most), 2, answer), CUDA_SUCCESS);
    EXPECT_EQ(answer, 2) << "the last one found no place";
}

}  // namespace
}  // namespace warpline::client
