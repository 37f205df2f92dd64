use proptest::prelude::*;

use super::*;

#[test]
fn a_text_is_bytes_with_a_unit_or_a_share() {
    let read = |text| Limit::parse(text).ok().map(|limit| limit.bytes(Some(1000)).unwrap());
    assert_eq!(["20GiB", "1.5 MiB", "500MB", "7"].map(read), [20 << 30, 3 << 19, 500_000_000, 7].map(Some));
    assert_eq!([" 80% ", "12.5%", "9B", "0"].map(read), [800, 125, 9, 0].map(Some));
    assert_eq!([".5KiB", "1.0000000000000000009TiB", "33.333333333 %"].map(read), [512, 1 << 40, 333].map(Some));
    assert_eq!(read("18446744073709551615"), Some(u64::MAX));
    assert_eq!(["20gib", "1.5 mIB", "500mb"].map(read), [20 << 30, 3 << 19, 500_000_000].map(Some));
    assert_eq!(["SOFT 20gib", "None"].map(Limit::parse), [Limit::soft(20 << 30), Limit::NONE].map(Ok));
    let soft = ["soft 20GiB", " soft  50 %", "none"].map(Limit::parse);
    assert_eq!(soft, [Limit::soft(20 << 30), Limit::soft_share(0.5), Limit::NONE].map(Ok));
    let wrong = ["", "GiB", "20 GiBs", "-1", "1e9", "inf", "NaN%", "20g", "%", "100.1%", "soft", "soft none", "."];
    assert_eq!(wrong.map(read), [None; 13]);
    assert_eq!(["18446744073709551616", "20000000TiB"].map(read), [None; 2]);
}

#[test]
fn what_is_no_limit_is_refused_with_the_accepted_forms() {
    for error in ["a lot".parse::<Limit>().unwrap_err(), Limit::share(f64::NAN).bytes(Some(1)).unwrap_err()] {
        assert!(error.is_unavailable() && error.to_string().ends_with(FORMS), "{error}");
    }
    assert!(Limit::share(-0.1).bytes(Some(1)).is_err() && Limit::share(0.1).bytes(None).is_err());
    assert_eq!(Limit::share(1.0).bytes(Some(u64::MAX)).unwrap(), u64::MAX);
}

#[test]
fn the_error_of_a_text_tells_what_is_wrong() {
    let told = |text: &str| text.parse::<Limit>().unwrap_err().to_string();
    for text in ["120%", " soft  100.1 %"] {
        assert!(told(text).contains("(a share is at most 100%)"), "{}", told(text));
    }
    for text in ["99999999TiB", "soft 18446744073709551616"] {
        assert!(told(text).contains("(a limit is less than 2^64 bytes)"), "{}", told(text));
    }
    for text in ["64M", "lots", "", "%", "soft", "-1%", "1.5", "1.5B"] {
        assert!(told(text).contains("(it is neither bytes nor a share)"), "{}", told(text));
        assert!(told(text).contains("`KiB MiB GiB TiB` and `KB MB GB TB`"), "{}", told(text));
    }
}

#[test]
fn no_limit_and_an_invalid_one_are_packed_too() {
    for limit in [Limit::NONE, Limit::INVALID] {
        assert_eq!(Limit::of_packed(limit.packed()).parts().1, limit.parts().1);
    }
}

proptest! {
    #[test]
    fn what_is_shown_is_read_as_the_same(amount: u64, shift in 0..64u32, share in 0.0..=1.0f64, is_soft: bool) {
        let bytes = amount << shift;
        let limits = if is_soft { [Limit::soft(bytes), Limit::soft_share(share)] } else { [Limit::hard(bytes), Limit::share(share)] };
        for limit in limits {
            prop_assert_eq!(Limit::parse(&limit.to_string()), Ok(limit));
            let packed = Limit::of_packed(limit.packed());
            prop_assert!(packed == limit || packed == Limit::NONE && bytes >= 1 << 61, "{packed:?}");
        }
    }
}
