//! What a shell and `man` know of the command, written from the flags themselves.

use std::io::Write;

use clap::{Args, CommandFactory};

use super::{Cli, CommandError};

/// Arguments of `completions`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  pp-schedule completions bash > ~/.local/share/bash-completion/completions/pp-schedule
  pp-schedule completions zsh > ~/.zfunc/_pp-schedule
  pp-schedule completions fish > ~/.config/fish/completions/pp-schedule.fish")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  pp-schedule man > ~/.local/share/man/man1/pp-schedule.1
  pp-schedule man verify > ~/.local/share/man/man1/pp-schedule-verify.1")]
pub struct ManArgs {
    /// The command whose page to write [default: the page of all of them]
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

pub(super) fn completions(args: &CompletionsArgs, out: &mut dyn Write) -> Result<(), CommandError> {
    // Into memory first: the generator panics where it cannot write.
    let mut script = Vec::new();
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    Ok(out.write_all(&script)?)
}

pub(super) fn man(args: &ManArgs, out: &mut dyn Write) -> Result<(), CommandError> {
    let mut all = Cli::command();
    // Gives each command its full name.
    all.build();
    let page = match &args.command {
        None => all,
        Some(name) => {
            let known: Vec<&str> = all.get_subcommands().map(clap::Command::get_name).collect();
            let known = known.join(", ");
            let found = all.find_subcommand(name).cloned();
            found
                .ok_or_else(|| CommandError::Request(format!("man: there is no command `{name}`; there are {known}")))?
        }
    };
    Ok(clap_mangen::Man::new(page).render(out)?)
}
