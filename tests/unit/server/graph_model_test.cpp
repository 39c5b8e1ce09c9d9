// Which nodes of a graph stand for which of another one, and what is found out about host copies in bodies.
#include <gtest/gtest.h>

#include "server/objects/graph_survey.h"

namespace warpline::server {
namespace {

CUgraphNode name(size_t number) { return reinterpret_cast<CUgraphNode>(number); }

/// A graph as the driver tells it: nodes in the order in which they were made, with the edges to each.
class Made {
public:
    explicit Made(size_t first_name) : m_next_name(first_name) {}
    size_t add(std::vector<size_t> edges, CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL) {
        GraphModel::Node node;
        node.handle = node.top = name(m_next_name++);
        node.type = type;
        node.edges = edges.size();
        node.before = std::move(edges);
        model.nodes.push_back(std::move(node));
        model.whole.count = model.nodes.size();
        return model.nodes.size() - 1;
    }
    GraphModel model;

private:
    size_t m_next_name;
};

std::vector<CUgraphNode> handles_of(const GraphModel& model) {
    std::vector<CUgraphNode> names;
    for (const GraphModel::Node& node : model.nodes) names.push_back(node.handle);
    return names;
}

TEST(GraphModel, A6_NodesOfTwoGraphsArePairedFromTheLastOnesAlongTheEdges) {
    Made original(1), newer(101);
    const size_t a = original.add({}), b = original.add({}), c = original.add({a}), d = original.add({b});
    original.add({c, d});
    original.add({d});
    // Made in another order; the last nodes, and the edges of each, are in the same one.
    const size_t second = newer.add({}), after_second = newer.add({second}), first = newer.add({}),
                 after_first = newer.add({first});
    newer.add({after_first, after_second});
    newer.add({after_second});
    ASSERT_TRUE(newer.model.take_names(original.model));
    EXPECT_EQ(handles_of(newer.model), (std::vector<CUgraphNode>{name(2), name(4), name(1), name(3), name(5), name(6)}));
}

TEST(GraphModel, A6_NodesComeBehindAllThatHasRunBeforeThem) {
    Made made(1);
    // The last one was made first, and has the fewest edges; of two that have nothing to do with each other the first one made.
    const size_t last = made.add({}), second = made.add({}), first = made.add({}), aside = made.add({});
    made.model.nodes[second].before = {first};
    made.model.nodes[last].before = {second};
    EXPECT_EQ(made.model.in_order({last, second, first}), (std::vector<size_t>{first, second, last}));
    EXPECT_EQ(made.model.in_order({last, aside, first}), (std::vector<size_t>{first, aside, last}));
    EXPECT_EQ(made.model.in_order({aside, first}), (std::vector<size_t>{first, aside}));
}

TEST(GraphModel, A6_GraphsOfAnotherShapeAreNotPaired) {
    const auto make = [](size_t first_name, bool crossed, CUgraphNodeType last_type, bool more) {
        Made made(first_name);
        const size_t a = made.add({}), b = made.add({}), c = made.add({a, b});
        made.add(crossed ? std::vector<size_t>{c, a} : std::vector<size_t>{a, c}, last_type);
        if (more) made.add({});
        return made.model;
    };
    const GraphModel original = make(1, false, CU_GRAPH_NODE_TYPE_KERNEL, false);
    for (const GraphModel& other :
         {make(101, true, CU_GRAPH_NODE_TYPE_KERNEL, false), make(101, false, CU_GRAPH_NODE_TYPE_MEMSET, false),
          make(101, false, CU_GRAPH_NODE_TYPE_KERNEL, true)}) {
        GraphModel changed = other;
        EXPECT_FALSE(changed.take_names(original));
        EXPECT_EQ(handles_of(changed), handles_of(other));
    }
    GraphModel same = make(101, false, CU_GRAPH_NODE_TYPE_KERNEL, false);
    EXPECT_TRUE(same.take_names(original));
    EXPECT_EQ(handles_of(same), handles_of(original));
}

TEST(GraphModel, A6_AChildGraphIsPairedInsideItsNode) {
    // The parent's nodes come first, the child's behind them; what is switched off stays so.
    const auto make = [](size_t first_name, bool reversed) {
        Made made(first_name);
        const size_t child = made.add({}, CU_GRAPH_NODE_TYPE_GRAPH);
        made.add({child});
        GraphModel& model = made.model;
        const size_t first = made.add({}), second = made.add({});
        const size_t last = reversed ? made.add({second, first}) : made.add({first, second});
        model.whole.count = 2;
        model.nodes[child].inside.push_back({first, 3});
        for (size_t i : {first, second, last}) {
            model.nodes[i].top = model.nodes[child].handle;
            model.nodes[child].before.push_back(i);
        }
        return model;
    };
    GraphModel original = make(1, false), newer = make(101, true);
    original.nodes[2].enabled = false;
    ASSERT_TRUE(newer.take_names(original));
    EXPECT_EQ(handles_of(newer), (std::vector<CUgraphNode>{name(1), name(2), name(4), name(3), name(5)}));
    EXPECT_EQ(newer.nodes[2].top, name(1));
    EXPECT_TRUE(newer.nodes[2].enabled);
    EXPECT_FALSE(newer.nodes[3].enabled);
}

}  // namespace
}  // namespace warpline::server
