//! Memory that is reserved for one stream, in a slot that other streams had before.

use super::some;

#[test]
fn memory_of_a_stream_that_ended_is_not_reserved_with_its_slot() {
    let (world, _, mut streams, [(a, _), (b, _)]) = some();
    let before = streams.free(&a);
    let (handle, _) = world.stream();
    let first = handle.reserved_apart();
    let ended = streams.free(&first);
    streams.release(&first);
    drop((a, first));
    streams.retire();
    // They get the slots of the streams that ended.
    let reserved = [(); 2].map(|()| handle.reserved_apart());
    let own = [streams.free(&reserved[0]), streams.free(&reserved[1])];
    assert_eq!(own.map(|tag| tag.owner()), [before.owner(), ended.owner()]);
    let me = streams.attend(&b);
    for (tag, own) in [before, ended].into_iter().zip(own) {
        assert!(streams.is_idle(tag) && !streams.is_reserved(tag) && streams.may_use(me, tag));
        streams.claim(&b, tag).unwrap();
        assert!(!streams.is_idle(own) && streams.is_reserved(own) && !streams.may_use(me, own));
        assert!(streams.claim(&b, own).is_err());
        assert_eq!(tag.merge(own), None, "the joined memory would be reserved");
    }
}
