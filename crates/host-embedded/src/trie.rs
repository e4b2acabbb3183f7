//! A Merkle-Patricia trie that shares structure between its versions.

use alloy_primitives::{B256, Bytes};
use alloy_rlp::{BufMut, EMPTY_STRING_CODE, Header};
use alloy_trie::{
    EMPTY_ROOT_HASH, Nibbles,
    nodes::{ExtensionNodeRef, LeafNodeRef, RlpNode},
};
use std::sync::{Arc, OnceLock};

/// A trie over 32-byte keys (hashes of addresses or slots; Yellow Paper, appendix D). Cloning
/// shares everything; a change copies the path to it, and hashes are computed when asked for and
/// kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trie {
    root: Option<Arc<Node>>,
}

#[derive(Debug, Clone)]
enum Node {
    Leaf {
        key: B256,
        /// RLP.
        value: Vec<u8>,
    },
    /// A branch with the extension above it, if one is needed: which, depends on where it hangs.
    Branch {
        /// Any key below; its first `depth` nibbles are common to all of them.
        key: B256,
        /// Nibbles above the branch.
        depth: usize,
        children: [Option<Arc<Node>>; 16],
        /// The branch alone, without an extension.
        encoded: OnceLock<RlpNode>,
    },
}

impl Trie {
    /// Sets a key's value, which is RLP; an empty one takes the key out.
    pub(crate) fn set(&mut self, key: B256, value: Vec<u8>) {
        if value.is_empty() {
            self.root = self.root.take().and_then(|root| removed(root, &key));
            return;
        }
        match &mut self.root {
            Some(root) => insert(root, key, value),
            None => self.root = Some(Arc::new(Node::Leaf { key, value })),
        }
    }

    /// The root hash.
    pub(crate) fn root(&self) -> B256 {
        let Some(root) = &self.root else { return EMPTY_ROOT_HASH };
        let mut rlp = Vec::new();
        let node = root.encode(0, &mut rlp);
        node.as_hash().unwrap_or_else(|| alloy_primitives::keccak256(&rlp))
    }

    /// The nodes on the way to a key, root first, whether it is there or not (EIP-1186). Nodes of
    /// less than 32 bytes are part of the one above them.
    pub(crate) fn proof(&self, key: &B256) -> Vec<Bytes> {
        let mut nodes = Vec::new();
        let mut next = self.root.as_ref();
        let mut start = 0;
        while let Some(node) = next {
            let mut rlp = Vec::new();
            let reference = node.encode(start, &mut rlp);
            if nodes.is_empty() || reference.is_hash() {
                nodes.push(Bytes::from(rlp));
            }
            let Node::Branch { key: common, depth, children, encoded } = &**node else { break };
            let shared = common_nibbles(common, key);
            if *depth > start {
                // What was pushed is the extension; the branch stands on its own.
                if shared < *depth {
                    break;
                }
                if encoded.get().is_some_and(RlpNode::is_hash) {
                    let mut rlp = Vec::new();
                    encode_branch(children, *depth, &mut rlp);
                    nodes.push(Bytes::from(rlp));
                }
            }
            next = children[nibble(key, *depth)].as_ref();
            start = depth + 1;
        }
        nodes
    }
}

impl Node {
    fn key(&self) -> &B256 {
        match self {
            Self::Leaf { key, .. } | Self::Branch { key, .. } => key,
        }
    }

    /// Writes the node as it hangs below `start` nibbles and returns what its parent holds of it.
    fn encode(&self, start: usize, rlp: &mut Vec<u8>) -> RlpNode {
        rlp.clear();
        match self {
            Self::Leaf { key, value } => LeafNodeRef::new(&path(key, start, 64), value).rlp(rlp),
            Self::Branch { key, depth, children, encoded } if *depth > start => {
                let branch = encoded.get_or_init(|| {
                    encode_branch(children, *depth, rlp);
                    RlpNode::from_rlp(rlp)
                });
                rlp.clear();
                ExtensionNodeRef::new(&path(key, start, *depth), branch).rlp(rlp)
            }
            Self::Branch { depth, children, encoded, .. } => {
                encode_branch(children, *depth, rlp);
                encoded.get_or_init(|| RlpNode::from_rlp(rlp)).clone()
            }
        }
    }

    /// What the parent holds of the node, without writing what is known already.
    fn reference(&self, start: usize) -> RlpNode {
        if let Self::Branch { depth, encoded, .. } = self
            && *depth == start
            && let Some(known) = encoded.get()
        {
            return known.clone();
        }
        self.encode(start, &mut Vec::new())
    }
}

fn encode_branch(children: &[Option<Arc<Node>>; 16], depth: usize, rlp: &mut Vec<u8>) {
    rlp.clear();
    let children =
        children.each_ref().map(|child| child.as_ref().map(|child| child.reference(depth + 1)));
    // Seventeen items: the last, a value of the branch itself, is never there with keys of one
    // length.
    let payload_length =
        1 + children.iter().map(|child| child.as_ref().map_or(1, |c| c.len())).sum::<usize>();
    Header { list: true, payload_length }.encode(rlp);
    for child in &children {
        match child {
            Some(child) => rlp.put_slice(child),
            None => rlp.put_u8(EMPTY_STRING_CODE),
        }
    }
    rlp.put_u8(EMPTY_STRING_CODE);
}

fn insert(node: &mut Arc<Node>, key: B256, value: Vec<u8>) {
    let shared = common_nibbles(node.key(), &key);
    let fork_at = match &**node {
        Node::Leaf { .. } if shared == 64 => None,
        Node::Branch { depth, .. } if shared >= *depth => None,
        _ => Some(shared),
    };
    if let Some(depth) = fork_at {
        let mut children: [Option<Arc<Node>>; 16] = Default::default();
        children[nibble(node.key(), depth)] = Some(node.clone());
        children[nibble(&key, depth)] = Some(Arc::new(Node::Leaf { key, value }));
        *node = Arc::new(Node::Branch { key, depth, children, encoded: OnceLock::new() });
        return;
    }
    match Arc::make_mut(node) {
        Node::Leaf { value: old, .. } => *old = value,
        Node::Branch { depth, children, encoded, .. } => {
            *encoded = OnceLock::new();
            match &mut children[nibble(&key, *depth)] {
                Some(child) => insert(child, key, value),
                empty => *empty = Some(Arc::new(Node::Leaf { key, value })),
            }
        }
    }
}

/// The node without a key; `None` if nothing is left.
fn removed(mut node: Arc<Node>, key: &B256) -> Option<Arc<Node>> {
    match &*node {
        Node::Leaf { key: there, .. } => return (there != key).then_some(node),
        Node::Branch { key: common, depth, children, .. } => {
            if common_nibbles(common, key) < *depth || children[nibble(key, *depth)].is_none() {
                return Some(node);
            }
        }
    }
    if let Node::Branch { key: common, depth, children, encoded } = Arc::make_mut(&mut node) {
        *encoded = OnceLock::new();
        let place = &mut children[nibble(key, *depth)];
        *place = place.take().and_then(|child| removed(child, key));
        let mut left = children.iter().flatten();
        match (left.next(), left.next()) {
            (None, _) => return None,
            // A branch of one child is none: the child hangs where it hung.
            (Some(only), None) => return Some(only.clone()),
            (Some(first), Some(_)) => *common = *first.key(),
        }
    }
    Some(node)
}

fn nibble(key: &B256, at: usize) -> usize {
    let byte = key.0[at / 2];
    usize::from(if at.is_multiple_of(2) { byte >> 4 } else { byte & 0xf })
}

fn common_nibbles(a: &B256, b: &B256) -> usize {
    match a.0.iter().zip(&b.0).position(|(a, b)| a != b) {
        Some(at) => 2 * at + usize::from(a.0[at] >> 4 == b.0[at] >> 4),
        None => 64,
    }
}

fn path(key: &B256, from: usize, to: usize) -> Nibbles {
    Nibbles::unpack(key).slice(from..to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{U256, keccak256};
    use alloy_trie::{proof::verify_proof, root::storage_root_unhashed};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn slot(number: u8) -> B256 {
        B256::with_last_byte(number)
    }

    fn value(number: u64) -> Vec<u8> {
        if number == 0 { Vec::new() } else { alloy_rlp::encode(U256::from(number)) }
    }

    proptest! {
        /// Against alloy's builder, which sees the whole at once: after every step, and again from
        /// an older version that was kept.
        #[test]
        fn roots_and_proofs_are_those_of_the_whole(
            steps in prop::collection::vec((0_u8..40, 0_u64..3), 0..120),
        ) {
            let mut trie = Trie::default();
            let mut whole = BTreeMap::new();
            let mut versions = Vec::new();
            for (number, new) in steps {
                trie.set(keccak256(slot(number)), value(new));
                if new == 0 { whole.remove(&slot(number)); } else { whole.insert(slot(number), U256::from(new)); }
                let expected = storage_root_unhashed(whole.iter().map(|(k, v)| (*k, *v)));
                prop_assert_eq!(trie.root(), expected);
                let key = keccak256(slot(number));
                let proof = trie.proof(&key);
                let there = whole.get(&slot(number)).map(alloy_rlp::encode);
                prop_assert!(verify_proof(expected, Nibbles::unpack(key), there, &proof).is_ok());
                versions.push((trie.clone(), expected));
            }
            for (version, root) in versions {
                prop_assert_eq!(version.root(), root);
            }
        }

        /// Keys that agree for long make extensions and nodes inside nodes.
        #[test]
        fn long_common_paths(numbers in prop::collection::btree_map(0_u8..=255, 1_u64..200, 0..60)) {
            let mut trie = Trie::default();
            for (number, new) in &numbers {
                trie.set(slot(*number), value(*new));
            }
            let sorted = numbers.iter().map(|(number, new)| (slot(*number), U256::from(*new)));
            prop_assert_eq!(trie.root(), alloy_trie::root::storage_root(sorted));
            for number in 0..=255 {
                let there = numbers.get(&number).map(|new| alloy_rlp::encode(U256::from(*new)));
                let proof = trie.proof(&slot(number));
                let checked = verify_proof(trie.root(), Nibbles::unpack(slot(number)), there, &proof);
                prop_assert!(checked.is_ok(), "{:?}", checked);
            }
        }
    }
}
