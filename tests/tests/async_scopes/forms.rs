//! The kinds of functions that can be asynchronous and scoped, each with an array that lives while it waits. All run as tasks of a
//! runtime with several threads, so their futures must be `Send`.

use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use gpucache::device::Device;
use gpucache::prelude::cache_scope;
use gpucache::{Array, Error, Result};
use gpucache_tests::Faulty;
use gpucache_tests::conformance::{assert_pattern, patterned, stats_of, touch};
use tokio::task::yield_now;

use super::{Words, assert_all_back, assert_outside, served, threads, work};

/// Runs a task to its end, on a worker.
fn run<F: Future<Output: Send> + Send + 'static>(future: F) -> F::Output {
    let runtime = threads(2);
    let output = runtime.block_on(runtime.spawn(future)).unwrap();
    drop(runtime);
    output
}

struct Model {
    device: Faulty,
    weights: Option<Words>,
}

impl Model {
    #[cache_scope(methods)]
    async fn build(device: Faulty) -> Result<Self> {
        let weights = work(&device, 1, 2).await?;
        Ok(Model { weights: Some(weights), device })
    }

    #[cache_scope(methods)]
    async fn checked(&self, seed: u32) -> Result<&Words> {
        let copy = self.weights.as_ref().unwrap().try_clone()?;
        yield_now().await;
        assert_pattern(&copy, seed);
        Ok(self.weights.as_ref().unwrap())
    }

    #[cache_scope(methods)]
    async fn renew(&mut self, seed: u32) -> Result<()> {
        let new = patterned(&self.device, 40, seed)?;
        yield_now().await;
        self.weights = Some(new);
        Ok(())
    }

    #[cache_scope(methods)]
    async fn shared(self: Arc<Self>) -> usize {
        yield_now().await;
        self.weights.as_ref().unwrap().try_clone().unwrap().len()
    }
}

#[test]
fn methods() {
    let device = Faulty::new();
    let task = device.clone();
    run(async move {
        let mut model = Model::build(task).await.unwrap();
        assert_pattern(model.checked(1).await.unwrap(), 1);
        model.renew(9).await.unwrap();
        assert_pattern(model.checked(9).await.unwrap(), 9);
        assert_eq!(Arc::new(model).shared().await, 40);
    });
    assert_eq!((served("methods"), stats_of("methods").polls), (3 + 1 + 1 + 1 + 1, 5 + 4 * 2));
    assert_all_back(&device, &["methods"]);
}

#[cache_scope(generic)]
async fn longest<'a, D, F, const N: usize>(
    device: &'a D,
    names: [&'a str; N],
    mut make: impl FnMut(u32) -> F + Send,
) -> Result<(&'a str, Vec<Array<u32, D>>)>
where
    D: Device,
    F: Future<Output = Result<Array<u32, D>>>,
{
    let mut arrays = vec![patterned(device, 40, 0)?];
    for seed in 1..=N as u32 {
        arrays.push(make(seed).await?);
    }
    Ok((names.into_iter().max_by_key(|name| name.len()).unwrap_or_default(), arrays))
}

#[test]
fn generics_and_lifetimes() {
    let device = Faulty::new();
    let task = device.clone();
    run(async move {
        let longer = String::from("longer");
        let make = |seed| work(&task, seed * 10, 1);
        let (name, arrays) = longest(&task, ["short", &longer], make).await.unwrap();
        assert_eq!(name, "longer");
        (0..).zip(&arrays).for_each(|(seed, array)| assert_pattern(array, seed * 10));
    });
    assert_eq!(served("generic"), 1 + 2 * 2);
    assert_all_back(&device, &["generic"]);
}

#[async_trait::async_trait]
trait Layer: Send + Sync {
    async fn forward(&self, input: &Words) -> Result<Words>;

    #[cache_scope(default_method)]
    async fn twice(&self, input: Words) -> Result<Words> {
        let copy = input.try_clone()?;
        let once = self.forward(&copy).await?;
        drop(copy);
        self.forward(&once).await
    }
}

struct Copies(String);

#[async_trait::async_trait]
impl Layer for Copies {
    #[cache_scope(name = self.0)]
    async fn forward(&self, input: &Words) -> Result<Words> {
        let before = input.try_clone()?;
        yield_now().await;
        let output = before.try_clone()?;
        yield_now().await;
        Ok(output)
    }
}

/// Boxed futures of a trait object. The scope's name is that of the implementation, evaluated at the first poll.
#[test]
fn async_trait_objects() {
    let device = Faulty::new();
    let task = device.clone();
    run(async move {
        let layers: [Box<dyn Layer>; 2] = [Box::new(Copies("layer 0".into())), Box::new(Copies("layer 1".into()))];
        let mut hidden = patterned(&task, 40, 3).unwrap();
        drop(layers[0].forward(&hidden));
        assert!(gpucache::stats("layer 0").is_none(), "entered before the first poll");
        for layer in &layers {
            hidden = layer.twice(hidden).await.unwrap();
            assert_outside(&task, "default_method");
        }
        assert_pattern(&hidden, 3);
    });
    assert_eq!((served("layer 0"), served("layer 1"), served("default_method")), (4, 4, 2));
    assert_eq!((stats_of("layer 0").polls, stats_of("default_method").polls), (6, 2 * 5));
    assert_all_back(&device, &["layer 0", "layer 1", "default_method"]);
}

#[cache_scope(opaque)]
async fn described(device: &Faulty, seed: u32) -> Result<(impl Display + use<>, impl Iterator<Item = Words>)> {
    let kept = work(device, seed, 1).await?;
    touch::<u8, _>(device, seed as usize * 100)?;
    let more = work(device, seed + 50, 1).await;
    Ok((format!("{} elements", kept.len()), [kept, more?].into_iter()))
}

/// `impl Trait` inside the returned type, and errors that leave by `?` while arrays live.
#[test]
fn opaque_types_and_errors() {
    let device = Faulty::new();
    let task = device.clone();
    run(async move {
        let (text, arrays) = described(&task, 4).await.unwrap();
        assert_eq!(text.to_string(), "40 elements");
        arrays.zip([4, 54]).for_each(|(array, seed)| assert_pattern(&array, seed));
        task.set_room(task.memory().bytes as usize);
        let error: Error = described(&task, 200).await.err().unwrap();
        assert!(error.is_out_of_memory());
    });
    assert_eq!(stats_of("opaque").busy_blocks, 0);
    assert_all_back(&device, &["opaque"]);
}

#[cache_scope(recursion)]
async fn recursion(device: &Faulty, depth: u32) -> Result<u64> {
    let mine = patterned(device, 40, depth)?;
    yield_now().await;
    let below = match depth {
        0 => 0,
        _ => Box::pin(recursion(device, depth - 1)).await? + Box::pin(recursion(device, depth - 1)).await?,
    };
    assert_pattern(&mine, depth);
    Ok(below + 1)
}

#[cache_scope(boxed_recursion)]
fn boxed_recursion(device: &Faulty, depth: u32) -> Pin<Box<dyn Future<Output = Result<u64>> + Send + '_>> {
    Box::pin(async move {
        let mine = patterned(device, 40, depth)?;
        yield_now().await;
        let below = match depth {
            0 => 0,
            _ => tokio::join!(boxed_recursion(device, depth - 1), boxed_recursion(device, depth - 1)).0?,
        };
        assert_pattern(&mine, depth);
        Ok(below + 1)
    })
}

/// A scope inside itself, as deep as there are calls. Each poll of the innermost enters all of them again.
#[test]
fn recursions() {
    let device = Faulty::new();
    let task = device.clone();
    run(async move {
        assert_eq!(recursion(&task, 6).await.unwrap(), 127);
        assert_eq!(boxed_recursion(&task, 6).await.unwrap(), 7);
        assert_outside(&task, "recursion");
    });
    assert_eq!((served("recursion"), served("boxed_recursion")), (127, 127));
    assert_all_back(&device, &["recursion", "boxed_recursion"]);
}

/// Above an attribute that makes a plain function of it: only the body is scoped, and not the runtime.
#[cache_scope(above)]
#[tokio::test]
async fn above_the_runtimes_attribute() {
    let device = Faulty::new();
    let beside = device.clone();
    let beside = tokio::spawn(async move { assert_outside(&beside, "above") });
    touch::<u32, _>(&device, 40).unwrap();
    beside.await.unwrap();
    assert_eq!((served("above"), stats_of("above").polls), (1, 2));
    gpucache::invalidate("above");
    assert_all_back(&device, &["above"]);
}
