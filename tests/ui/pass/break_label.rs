//! `break` and `continue` leave the block, with and without labels and values.
#![deny(warnings)]
use gpucache::cache_scope;

pub(crate) fn main() {
    let mut odd = Vec::new();
    let sum = 'steps: loop {
        let mut sum = 0;
        for step in 0.. {
            cache_scope!("step", {
                if step % 2 == 0 {
                    continue;
                }
                odd.push(step);
                sum += step;
                if sum > 20 {
                    break 'steps sum;
                }
            });
        }
    };
    assert_eq!((sum, odd), (25, vec![1, 3, 5, 7, 9]));
    assert_eq!(gpucache::stats("step").unwrap().entries, 10);

    let early = 'early: {
        let inner = cache_scope!(inner, {
            if sum == 25 {
                break 'early "broke";
            }
            "fell through"
        });
        inner
    };
    assert_eq!(early, "broke");

    let mut steps = 0..5;
    let counted = loop {
        cache_scope!(plain, {
            match steps.next() {
                Some(3) => break "three",
                Some(_) => {}
                None => break "none",
            }
        });
    };
    assert_eq!(counted, "three");
}
