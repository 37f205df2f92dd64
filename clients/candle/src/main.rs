//! Models of candle-transformers with random weights, unmodified or inside gpucache's scopes. Each subcommand prints one
//! JSON object.

mod bert;
mod decode;
mod decoder;
mod gpu;
mod llama;
mod nodes;
mod preallocated;
mod resnet;
mod train;

use clap::Parser;

#[derive(Parser)]
#[command(about)]
enum Client {
    /// llama2.c learns random tokens: forward, backward, AdamW.
    Train(train::Train),
    /// llama2.c writes tokens, one at a time, with its cache of keys and values.
    Decode(decode::Decode),
    /// A decoder with a preallocated cache, whose steps can be CUDA graphs, writes tokens.
    Preallocated(preallocated::Preallocated),
    /// BERT reads sentences of varying lengths.
    Bert(bert::Bert),
    /// ResNet-50 looks at images.
    Resnet(resnet::Resnet),
}

fn main() -> anyhow::Result<()> {
    match Client::parse() {
        Client::Train(train) => train.run(),
        Client::Decode(decode) => decode.run(),
        Client::Preallocated(preallocated) => preallocated.run(),
        Client::Bert(bert) => bert.run(),
        Client::Resnet(resnet) => resnet.run(),
    }
}
