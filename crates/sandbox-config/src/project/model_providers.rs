//! The providers of a project.

use crate::project::Project;
use crate::provider::{ProviderSettings, UnknownProvider};

impl Project {
    /// The provider of a name: one that forge knows, the person's own, or the project's.
    ///
    /// # Errors
    /// It does not exist, or the project names it and you have not agreed to that.
    pub fn provider(&self, name: &str) -> Result<&ProviderSettings, UnknownProvider> {
        self.read.providers.get(name)
    }

    /// Every provider that can be used, by name.
    pub fn providers(&self) -> impl Iterator<Item = &ProviderSettings> {
        self.read.providers.by_name.values()
    }

    /// The provider of `provider:model`, and the model's own name, which may hold colons itself.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
    /// let (provider, model) = project.provider_of("ollama:qwen3:8b").unwrap();
    /// assert_eq!((provider.name(), model), ("ollama", "qwen3:8b"));
    /// let other = project.provider_of("ollama/qwen3").unwrap_err();
    /// assert_eq!(other.help(), "did you mean `ollama:qwen3`?");
    /// ```
    ///
    /// # Errors
    /// As [`Project::provider`]; or it is not of that form.
    pub fn provider_of<'m>(
        &self,
        model: &'m str,
    ) -> Result<(&ProviderSettings, &'m str), UnknownProvider> {
        let parts = model.split_once(':').filter(|(_, model)| !model.is_empty());
        let Some((provider, model)) = parts else {
            let missing = match model.contains(':') {
                true => "model",
                false => "provider",
            };
            let known = |(provider, _): &(&str, &str)| self.provider(provider).is_ok();
            let help = match model.split_once('/').filter(known) {
                Some((provider, model)) => format!("did you mean `{provider}:{model}`?"),
                None if self.provider(model).is_ok() => {
                    format!("`{model}` is a provider: write `{model}:` and the name of a model")
                }
                None => "write `provider:model`, such as `anthropic:claude-haiku-4-5`".to_owned(),
            };
            return Err(UnknownProvider {
                message: format!("the model `{model}` names no {missing}"),
                help,
                is_untrusted: false,
            });
        };
        Ok((self.provider(provider)?, model))
    }
}
