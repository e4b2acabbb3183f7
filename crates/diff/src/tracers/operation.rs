//! Geth's jump tables as far as they decide whether an opcode may start: constant gas and the
//! bounds of the stack (`core/vm/jump_table.go`, `core/vm/eips.go`).

use revm::primitives::hardfork::SpecId;

/// Items the stack holds at most.
const STACK_LIMIT: usize = 1024;

/// What an opcode asks for before it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operation {
    /// Gas whatever its operands are.
    pub(crate) constant: u64,
    /// Items needed.
    pub(crate) min: usize,
    /// Items allowed.
    pub(crate) max: usize,
}

impl Operation {
    const fn new(constant: u64, pops: usize, pushes: usize) -> Self {
        Self { constant, min: pops, max: STACK_LIMIT + pops - pushes }
    }
}

/// The operation behind an opcode under these rules; `None` if there is none.
pub(crate) fn operation(opcode: u8, spec: SpecId) -> Option<Operation> {
    let has = |fork: SpecId| spec.is_enabled_in(fork);
    // Gas by fork, the newest first.
    let by_fork = |steps: &[(SpecId, u64)], frontier: u64| {
        steps.iter().find(|(fork, _)| has(*fork)).map_or(frontier, |(_, gas)| *gas)
    };
    let access = |istanbul: u64, tangerine: u64, frontier: u64| {
        by_fork(
            &[(SpecId::BERLIN, 100), (SpecId::ISTANBUL, istanbul), (SpecId::TANGERINE, tangerine)],
            frontier,
        )
    };
    let since = |fork: SpecId, operation: Operation| has(fork).then_some(operation);
    let of = Operation::new;
    Some(match opcode {
        0x00 => of(0, 0, 0),
        0x01 | 0x03 => of(3, 2, 1),
        0x02 | 0x04..=0x07 | 0x0b => of(5, 2, 1),
        0x08 | 0x09 => of(8, 3, 1),
        0x0a => of(0, 2, 1),
        0x10..=0x14 | 0x16..=0x18 | 0x1a => of(3, 2, 1),
        0x15 | 0x19 => of(3, 1, 1),
        0x1b..=0x1d => since(SpecId::PETERSBURG, of(3, 2, 1))?,
        0x1e => since(SpecId::OSAKA, of(5, 1, 1))?,
        0x20 => of(30, 2, 1),
        0x30 | 0x32..=0x34 | 0x36 | 0x38 | 0x3a => of(2, 0, 1),
        0x31 => of(access(700, 400, 20), 1, 1),
        0x35 => of(3, 1, 1),
        0x37 | 0x39 => of(3, 3, 0),
        0x3b => of(access(700, 700, 20), 1, 1),
        0x3c => of(access(700, 700, 20), 4, 0),
        0x3d => since(SpecId::BYZANTIUM, of(2, 0, 1))?,
        0x3e => since(SpecId::BYZANTIUM, of(3, 3, 0))?,
        0x3f => since(SpecId::PETERSBURG, of(access(700, 400, 400), 1, 1))?,
        0x40 => of(20, 1, 1),
        0x41..=0x45 => of(2, 0, 1),
        0x46 => since(SpecId::ISTANBUL, of(2, 0, 1))?,
        0x47 => since(SpecId::ISTANBUL, of(5, 0, 1))?,
        0x48 => since(SpecId::LONDON, of(2, 0, 1))?,
        0x49 => since(SpecId::CANCUN, of(3, 1, 1))?,
        0x4a => since(SpecId::CANCUN, of(2, 0, 1))?,
        0x4b => since(SpecId::AMSTERDAM, of(2, 0, 1))?,
        0x50 => of(2, 1, 0),
        0x51 => of(3, 1, 1),
        0x52 | 0x53 => of(3, 2, 0),
        // Since Berlin the whole price of SLOAD depends on the slot.
        0x54 => of(
            by_fork(&[(SpecId::BERLIN, 0), (SpecId::ISTANBUL, 800), (SpecId::TANGERINE, 200)], 50),
            1,
            1,
        ),
        0x55 => of(0, 2, 0),
        0x56 => of(8, 1, 0),
        0x57 => of(10, 2, 0),
        0x58..=0x5a => of(2, 0, 1),
        0x5b => of(1, 0, 0),
        0x5c => since(SpecId::CANCUN, of(100, 1, 1))?,
        0x5d => since(SpecId::CANCUN, of(100, 2, 0))?,
        0x5e => since(SpecId::CANCUN, of(3, 3, 0))?,
        0x5f => since(SpecId::SHANGHAI, of(2, 0, 1))?,
        0x60..=0x7f => of(3, 0, 1),
        0x80..=0x8f => {
            let depth = usize::from(opcode - 0x7f);
            of(3, depth, depth + 1)
        }
        0x90..=0x9f => {
            let depth = usize::from(opcode - 0x8e);
            of(3, depth, depth)
        }
        0xa0..=0xa4 => of(0, usize::from(opcode - 0x9e), 0),
        0xe6 => since(SpecId::AMSTERDAM, Operation { constant: 3, min: 1, max: STACK_LIMIT - 1 })?,
        0xe7 | 0xe8 => {
            since(SpecId::AMSTERDAM, Operation { constant: 3, min: 2, max: STACK_LIMIT })?
        }
        0xf0 => of(32_000, 3, 1),
        0xf1 | 0xf2 => of(access(700, 700, 40), 7, 1),
        0xf3 => of(0, 2, 0),
        0xf4 => since(SpecId::HOMESTEAD, of(access(700, 700, 40), 6, 1))?,
        0xf5 => since(SpecId::PETERSBURG, of(32_000, 4, 1))?,
        0xfa => since(SpecId::BYZANTIUM, of(access(700, 700, 700), 6, 1))?,
        0xfd => since(SpecId::BYZANTIUM, of(0, 2, 0))?,
        // Its price is all dynamic before Berlin.
        0xff => of(by_fork(&[(SpecId::BERLIN, 5_000)], 0), 1, 0),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use revm::bytecode::opcode::OPCODE_INFO;

    /// revm's own table of stack effects, for the newest fork, is the independent source.
    #[test]
    fn stack_bounds_agree_with_revm() {
        for (opcode, info) in OPCODE_INFO.iter().enumerate() {
            let opcode = opcode as u8;
            // EIP-8024's opcodes count their operand's depth, and INVALID has no operation.
            if matches!(opcode, 0xe6..=0xe8 | 0xfe) {
                continue;
            }
            let operation = operation(opcode, SpecId::AMSTERDAM);
            let bounds = operation.map(|operation| (operation.min, operation.max));
            let expected = info.map(|info| {
                let (pops, pushes) = (usize::from(info.inputs()), usize::from(info.outputs()));
                (pops, STACK_LIMIT + pops - pushes)
            });
            assert_eq!(bounds, expected, "{opcode:#x}");
        }
    }

    #[test]
    fn opcodes_appear_with_their_fork() {
        for (opcode, before, since) in [
            (0xf4, SpecId::FRONTIER, SpecId::HOMESTEAD),
            (0xfd, SpecId::SPURIOUS_DRAGON, SpecId::BYZANTIUM),
            (0xf5, SpecId::BYZANTIUM, SpecId::PETERSBURG),
            (0x46, SpecId::PETERSBURG, SpecId::ISTANBUL),
            (0x48, SpecId::BERLIN, SpecId::LONDON),
            (0x5f, SpecId::MERGE, SpecId::SHANGHAI),
            (0x5c, SpecId::SHANGHAI, SpecId::CANCUN),
            (0x1e, SpecId::PRAGUE, SpecId::OSAKA),
        ] {
            assert_eq!(operation(opcode, before), None, "{opcode:#x}");
            assert!(operation(opcode, since).is_some(), "{opcode:#x}");
        }
    }
}
