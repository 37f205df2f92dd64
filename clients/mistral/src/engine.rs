//! mistral.rs's engine, which runs on a thread of its own, and one text from it.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow, ensure};
use candle_core::{Device, Tensor};
use mistralrs_core::{
    CustomLogitsProcessor, DefaultSchedulerMethod, DeviceMapSetting, MemoryGpuConfig, MistralRs, MistralRsBuilder,
    ModelDType, NormalLoaderBuilder, NormalLoaderType, NormalRequest, NormalSpecificConfig, PagedAttentionConfig,
    PagedCacheType, Request, RequestMessage, ResponseOk, SamplingParams, SchedulerConfig,
};

use crate::files::Files;
use crate::model::LENGTH;
use crate::scopes::Scopes;

pub(crate) struct Engine {
    mistral: Arc<MistralRs>,
}

impl Engine {
    /// Loads the weights on this thread, outside all scopes, and starts the engine.
    pub(crate) fn load(files: &Files, device: &Device, paged: bool) -> Result<Self> {
        let loader = NormalLoaderBuilder::new(
            NormalSpecificConfig::default(),
            None,
            None,
            Some("random".to_owned()),
            false,
            None,
        )
        .build(Some(NormalLoaderType::Llama))?;
        let memory = MemoryGpuConfig::ContextSize(LENGTH);
        let paged = paged.then(|| PagedAttentionConfig::new(None, memory, PagedCacheType::Auto)).transpose()?;
        let pipeline = loader.load_model_from_path(
            &files.paths(),
            &ModelDType::BF16,
            device,
            true,
            DeviceMapSetting::dummy(),
            None,
            paged,
        )?;
        let cache = pipeline.try_lock()?.get_metadata().cache_config.clone();
        let scheduler = match cache {
            Some(config) => SchedulerConfig::PagedAttentionMeta { max_num_seqs: 1, config },
            None => SchedulerConfig::DefaultScheduler { method: DefaultSchedulerMethod::Fixed(NonZeroUsize::MIN) },
        };
        // Texts share no prefixes, and end by their length alone.
        let builder = MistralRsBuilder::new(pipeline, scheduler, false, None)
            .with_no_prefix_cache(true)
            .with_disable_eos_stop(true);
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        Ok(Self { mistral: runtime.block_on(builder.build()) })
    }

    /// Writes this many tokens behind the prompt, and returns each one's logits.
    pub(crate) fn write(&self, prompt: Vec<u32>, tokens: usize, scopes: Option<Scopes>) -> Result<Vec<Vec<f32>>> {
        let watch = Arc::new(Watch { last: prompt.len() + tokens - 1, scopes, logits: Mutex::default() });
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let sampling = SamplingParams { max_len: Some(tokens), ..SamplingParams::deterministic() };
        let message = RequestMessage::CompletionTokens(prompt);
        let number = self.mistral.next_request_id();
        let mut request = NormalRequest::new_simple(message, sampling, sender, number, None, None);
        request.logits_processors = Some(vec![watch.clone()]);
        self.mistral.send_request(Request::Normal(Box::new(request)))?;
        let response = receiver.blocking_recv().context("the engine has ended")?;
        let answer = response.as_result().map_err(|error| anyhow!("{error}"))?;
        ensure!(matches!(answer, ResponseOk::CompletionDone(_)), "the answer is no text");
        let logits = std::mem::take(&mut *watch.logits.lock().unwrap_or_else(PoisonError::into_inner));
        ensure!(logits.len() == tokens, "the text has {} tokens instead of {tokens}", logits.len());
        Ok(logits)
    }
}

/// Sees the logits of each token on the engine's thread, and leaves them as they are.
struct Watch {
    /// The length of the text before its last token.
    last: usize,
    scopes: Option<Scopes>,
    logits: Mutex<Vec<Vec<f32>>>,
}

impl CustomLogitsProcessor for Watch {
    fn apply(&self, logits: &Tensor, text: &[u32]) -> candle_core::Result<Tensor> {
        if let Some(scopes) = self.scopes {
            scopes.next(text.len() == self.last);
        }
        let values = logits.to_vec1()?;
        self.logits.lock().unwrap_or_else(PoisonError::into_inner).push(values);
        Ok(logits.clone())
    }
}
