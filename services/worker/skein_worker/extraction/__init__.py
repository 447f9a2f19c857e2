"""Facts out of messages: proposed by rules, judged by a checker that lets nothing pass that was not said."""
