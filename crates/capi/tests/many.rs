//! Many blocks are alive at once, and each is found by its address on any thread.

use std::thread::scope;

use gpucache_capi::{allocate, base_address, free};

const BLOCKS: usize = 20_000;

/// Mostly small. Some are just as large as a window of the table for large blocks, or a little smaller, or several windows long.
fn bytes(number: usize) -> usize {
    match number % 16 {
        0 => (16 << 10) + number % 3 * 256,
        5 => (16 << 10) - 1,
        10 => (20 << 10) + number % 7 * 5000,
        _ => 1 + number % 700,
    }
}

#[test]
fn every_block_is_found_once() {
    let blocks: Vec<(u64, usize)> =
        (0..BLOCKS).map(|number| (allocate(bytes(number), -1, 0).unwrap(), bytes(number))).collect();
    for &(begin, bytes) in blocks.iter().step_by(7) {
        assert_eq!(base_address(begin + bytes as u64 - 1), Some((begin, bytes)));
        assert!(free(begin + 1).is_err() && free(begin ^ 128).is_err(), "no block begins there");
    }
    for &(begin, bytes) in blocks.iter().filter(|(_, bytes)| *bytes >= 16 << 10) {
        assert!(free(begin + 256).is_err() && free(begin + bytes as u64 / 512 * 256).is_err(), "no block begins there");
    }
    // Each address is freed by two threads, and one of them finds the block.
    let freed = scope(|threads| {
        let both = [false, true].map(|is_backward| {
            let mut blocks = blocks.clone();
            if is_backward {
                blocks.reverse();
            }
            threads.spawn(move || blocks.into_iter().filter(|&(begin, _)| free(begin).is_ok()).count())
        });
        both.map(|thread| thread.join().unwrap())
    });
    assert_eq!(freed.iter().sum::<usize>(), BLOCKS);
    assert!(blocks.iter().all(|&(begin, _)| free(begin).is_err()));
    assert_eq!(base_address(blocks[BLOCKS / 2].0), None);
}
