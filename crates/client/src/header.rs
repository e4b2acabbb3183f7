use alloy_primitives::{B256, U64};
use prestate_types::BlockRef;
use serde::Deserialize;

/// What following a chain needs of a block.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Header {
    number: U64,
    pub(crate) hash: B256,
    pub(crate) parent_hash: B256,
    /// Hashes of the transactions, if the node says.
    #[serde(default)]
    transactions: Option<Vec<B256>>,
}

impl Header {
    pub(crate) fn number(&self) -> u64 {
        self.number.to()
    }

    /// Hashes of the transactions, if the node says.
    pub(crate) fn transactions(&self) -> Option<&[B256]> {
        self.transactions.as_deref()
    }

    /// Whether a trace can show anything. A block without transactions has none to show.
    pub(crate) fn is_traceable(&self) -> bool {
        self.transactions().is_none_or(|transactions| !transactions.is_empty())
    }

    pub(crate) fn block(&self) -> BlockRef {
        BlockRef::new(self.number(), self.hash)
    }

    #[cfg(test)]
    pub(crate) fn new(number: u64, hash: B256, parent_hash: B256) -> Self {
        Self { number: U64::from(number), hash, parent_hash, transactions: None }
    }
}

/// Headers that were asked for by number, newest first, cut where they stop being the ancestors of
/// `child`: a chain that changed between two answers must not be stitched together.
pub(crate) fn linked(child: &Header, newest_first: Vec<Header>) -> Vec<Header> {
    let mut wanted = child.parent_hash;
    let mut number = child.number();
    newest_first
        .into_iter()
        .take_while(|header| {
            let fits = header.hash == wanted && header.number() + 1 == number;
            (wanted, number) = (header.parent_hash, header.number());
            fits
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_cut_where_it_does_not_link() {
        let hash = B256::with_last_byte;
        let header =
            |number: u64, own: u8, parent: u8| Header::new(number, hash(own), hash(parent));
        let child = header(9, 9, 8);
        let chain = vec![header(8, 8, 7), header(7, 7, 6), header(6, 66, 5), header(5, 5, 4)];
        assert_eq!(linked(&child, chain.clone()), chain[..2]);
        assert_eq!(linked(&child, chain[1..].to_vec()), []);
        assert_eq!(linked(&child, vec![header(7, 8, 7)]), [], "a number that lies");
    }

    #[test]
    fn a_block_as_nodes_send_it() {
        let text = format!(
            r#"{{"number":"0x10","hash":"{}","parentHash":"{}","timestamp":"0x5","transactions":["{}"],"extra":1}}"#,
            B256::with_last_byte(1),
            B256::with_last_byte(2),
            B256::with_last_byte(3)
        );
        let header: Header = serde_json::from_str(&text).unwrap();
        assert_eq!((header.number(), header.transactions().map(<[_]>::len)), (16, Some(1)));
    }
}
