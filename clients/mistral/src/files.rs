//! The files from which mistral.rs loads a model, in a folder that lives as long as this program needs it.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use mistralrs_core::{AdapterPaths, LocalModelPaths, ModelPaths};
use serde_json::{Map, Value, json};

use crate::model::{self, VOCABULARY};

/// The token that ends a text. The engine is told to ignore it.
const END: &str = "</s>";

pub(crate) struct Files {
    folder: PathBuf,
}

impl Files {
    /// Writes a model with random weights.
    pub(crate) fn write(seed: u64) -> Result<Self> {
        let files = Self { folder: std::env::temp_dir().join(format!("mistral-client-{}", std::process::id())) };
        fs::create_dir_all(&files.folder)?;
        fs::write(files.path("config.json"), model::config().to_string())?;
        fs::write(files.path("tokenizer.json"), tokenizer().to_string())?;
        candle_core::safetensors::save(&model::weights(seed)?, files.path("model.safetensors"))?;
        Ok(files)
    }

    pub(crate) fn paths(&self) -> Box<dyn ModelPaths> {
        Box::new(LocalModelPaths {
            tokenizer_filename: self.path("tokenizer.json"),
            config_filename: self.path("config.json"),
            template_filename: None,
            filenames: vec![self.path("model.safetensors")],
            adapter_paths: AdapterPaths::None,
            gen_conf: None,
            preprocessor_config: None,
            processor_config: None,
            chat_template_json_filename: None,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // A folder that stays behind is no reason to fail.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The contents of `tokenizer.json`: every byte is a token, then come pairs of letters, and the end of a text.
fn tokenizer() -> Value {
    let bytes = (0..=u8::MAX).map(|byte| letter(byte).to_string());
    let of = |index: usize| char::from(b'a' + (index % 16) as u8);
    let pairs = (0..VOCABULARY - 257).map(|index| format!("{}{}", of(index / 16), of(index)));
    let tokens = bytes.chain(pairs).enumerate().map(|(number, token)| (token, json!(number)));
    let byte_level =
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false });
    json!({
        "version": "1.0",
        "added_tokens": [{
            "id": VOCABULARY - 1, "content": END, "special": true,
            "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        }],
        "pre_tokenizer": byte_level.clone(),
        "decoder": byte_level,
        "model": { "type": "BPE", "vocab": tokens.collect::<Map<_, _>>(), "merges": [] },
    })
}

/// The letter that stands for a byte in such a file: the byte's own if it is visible, and otherwise one after the first 256 letters.
fn letter(byte: u8) -> char {
    let is_visible = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..);
    let hidden_before = (0..byte).filter(|&byte| !is_visible(byte)).count() as u32;
    if is_visible(byte) { char::from(byte) } else { char::from_u32(256 + hidden_before).unwrap_or_default() }
}
