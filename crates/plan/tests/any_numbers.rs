//! The public functions take any numbers, also those that no program of allocations has.

use gpucache_plan::entries::{Answer, Cursor, Envelope, Log, Ring};
use gpucache_plan::loops::Search;
use gpucache_plan::{Buffer, Layout};

const NUMBERS: [u32; 4] = [0, 1, 3, u32::MAX];
const BYTES: [u64; 4] = [0, 1, 1 << 40, u64::MAX];

fn log(bytes: &[u64]) -> Log {
    let mut log = Log::default();
    bytes.iter().for_each(|&bytes| _ = log.allocated(0, bytes));
    log
}

#[test]
fn parts_of_a_log_may_lie_anywhere() {
    let whole = log(&[256, 512]);
    for from in NUMBERS {
        for length in NUMBERS {
            assert!(whole.part(from, length).len() <= 2);
            assert!(whole.part_after(from, length).len() <= 2);
        }
    }
    for number in NUMBERS {
        for bytes in BYTES {
            log(&[]).end_last(number, Some(bytes));
            assert_eq!(log(&[256, 512]).end_last(number, Some(bytes)), number == 1);
        }
    }
}

#[test]
fn rings_and_loops_take_any_numbers() {
    for reach in BYTES {
        for size in BYTES {
            let (turns, _) = Ring::turns(&[size, 1], reach);
            assert!(turns.len() <= 2);
        }
        Ring::default().lengthen(1, reach);
    }
    let mut search = Search::default();
    NUMBERS.into_iter().for_each(|age| search.dropped(age));
}

#[test]
fn a_cursor_may_have_fewer_positions_than_its_envelope() {
    let log = log(&[256, 512, 1024]);
    let envelope = Envelope::of(&log, &log).unwrap();
    let buffers = [Buffer { lower: 0, upper: 1, size: 256 }];
    let mut cursor = Cursor::new(&envelope, &buffers, &Layout { offsets: vec![0], height: 256 });
    for _ in 0..3 {
        cursor.begin(false);
        for bytes in BYTES {
            let answer = cursor.serve_off_order(bytes, &envelope);
            assert!(!matches!(answer, Answer::Served(..)));
        }
        cursor.step_aside();
        cursor.step_aside();
        assert_eq!(cursor.left(), 0);
    }
}
