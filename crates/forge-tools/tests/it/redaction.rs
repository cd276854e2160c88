//! How well secrets are told from everything else, in figures: all of a list of keys, and next to
//! nothing of what people and programs write every day. The figures stand in docs/audit.md.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use forge_tools::Redactor;

/// Letters and digits without a pattern, the same at each run.
fn random(seed: u64, length: usize, alphabet: &[u8]) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let index = usize::try_from(state >> 33).unwrap() % alphabet.len();
        char::from(alphabet[index])
    };
    (0..length).map(|_| next()).collect()
}

const ALNUM: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const UPPER: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const HEX: &[u8] = b"0123456789abcdef";
const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What it is, the text before it, the secret, and the text behind it. Put together here, so that no
/// scanner takes this file for a leak.
fn secrets() -> Vec<(&'static str, String, String, String)> {
    let a = |seed: u64, length: usize| format!("{}7", random(seed, length - 1, ALNUM));
    let hex = |seed: u64, length: usize| random(seed, length, HEX);
    let keys: Vec<(&str, String)> = vec![
        ("OpenAI", format!("sk-{}", a(1, 48))),
        (
            "OpenAI project",
            format!("sk-proj-{}_{}-{}", a(2, 40), a(3, 40), a(4, 40)),
        ),
        ("OpenAI service", format!("sk-svcacct-{}", a(5, 60))),
        ("OpenRouter", format!("sk-or-v1-{}", hex(6, 64))),
        ("Anthropic", format!("sk-ant-api03-{}", a(7, 90))),
        ("Hugging Face", format!("hf_{}", a(8, 34))),
        ("Groq", format!("gsk_{}", a(9, 52))),
        ("xAI", format!("xai-{}", a(10, 80))),
        ("Perplexity", format!("pplx-{}", a(11, 48))),
        ("Replicate", format!("r8_{}", a(12, 37))),
        ("GitHub classic", format!("ghp_{}", a(13, 36))),
        ("GitHub OAuth", format!("gho_{}", a(14, 36))),
        ("GitHub server", format!("ghs_{}", a(15, 36))),
        (
            "GitHub fine-grained",
            format!("github_pat_{}_{}", a(16, 22), a(17, 59)),
        ),
        ("GitLab", format!("glpat-{}", a(18, 20))),
        (
            "GitLab routable",
            format!("glpat-{}.01.{}", a(19, 27), a(20, 9)),
        ),
        ("GitLab runner", format!("glrt-{}", a(21, 20))),
        ("GitLab deploy", format!("gldt-{}", a(22, 20))),
        ("npm", format!("npm_{}", a(23, 36))),
        ("PyPI", format!("pypi-AgEIcHlwaS5vcmc{}", a(24, 120))),
        ("RubyGems", format!("rubygems_{}", hex(25, 48))),
        ("Docker Hub", format!("dckr_pat_{}", a(26, 27))),
        ("AWS key id", format!("AKIA{}", random(27, 16, UPPER))),
        ("AWS session id", format!("ASIA{}", random(28, 16, UPPER))),
        ("Google API", format!("AIza{}", a(29, 35))),
        ("Google client secret", format!("GOCSPX-{}", a(30, 28))),
        ("Google token", format!("ya29.{}", a(31, 120))),
        ("DigitalOcean", format!("dop_v1_{}", hex(32, 64))),
        ("Databricks", format!("dapi{}", hex(33, 32))),
        ("Vault", format!("hvs.{}", a(34, 90))),
        ("Stripe secret", format!("sk_live_{}", a(35, 24))),
        ("Stripe restricted", format!("rk_live_{}", a(36, 99))),
        ("Stripe webhook", format!("whsec_{}", a(37, 32))),
        ("Shopify", format!("shpat_{}", hex(38, 32))),
        ("Square", format!("sq0atp-{}", a(39, 22))),
        (
            "Slack bot",
            format!("xoxb-{}-{}", random(40, 12, b"0123456789"), a(41, 24)),
        ),
        (
            "Slack user",
            format!("xoxp-{}-{}", random(42, 12, b"0123456789"), hex(43, 32)),
        ),
        (
            "Slack app",
            format!("xapp-1-A0{}-{}", a(44, 9), hex(45, 64)),
        ),
        ("SendGrid", format!("SG.{}.{}", a(46, 22), a(47, 43))),
        ("Linear", format!("lin_api_{}", a(48, 40))),
        ("Notion", format!("ntn_{}", a(49, 46))),
        ("Grafana", format!("glsa_{}_{}", a(50, 32), hex(51, 8))),
        ("New Relic", format!("NRAK-{}", random(52, 27, UPPER))),
        ("Figma", format!("figd_{}", a(53, 40))),
        (
            "JWT",
            format!("eyJ{}.eyJ{}.{}", a(54, 33), a(55, 60), a(56, 43)),
        ),
        (
            "Private key",
            format!(
                "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n{}\n-----END OPENSSH PRIVATE KEY-----",
                random(57, 70, BASE64),
                random(58, 70, BASE64)
            ),
        ),
    ];
    let mut rows: Vec<_> = keys
        .into_iter()
        .map(|(what, key)| (what, "the key is ".to_owned(), key, "\n".to_owned()))
        .collect();
    let mut row = |what, before: &str, secret: String, behind: &str| {
        rows.push((what, before.to_owned(), secret, behind.to_owned()));
    };
    row(
        "AWS secret",
        "aws_secret_access_key = ",
        random(60, 40, BASE64),
        "\n",
    );
    row(
        "AWS secret, exported",
        "export AWS_SECRET_ACCESS_KEY=\"",
        random(61, 40, BASE64),
        "\"\n",
    );
    row(
        "AWS session token",
        "\"SessionToken\": \"",
        a(62, 200),
        "\",\n",
    );
    row(
        "Azure storage",
        "AccountName=x;AccountKey=",
        format!("{}==", random(63, 86, BASE64)),
        ";",
    );
    row(
        "Azure client",
        "AZURE_CLIENT_SECRET=",
        format!("{}8Q~{}", a(64, 3), a(65, 34)),
        "\n",
    );
    row("Bearer", "Authorization: Bearer ", a(66, 40), "\n");
    row("Header", "x-api-key: ", a(67, 40), "\r\n");
    row(
        "Slack webhook",
        "https://",
        format!(
            "hooks.slack.com/services/T0{}/B0{}/{}",
            a(68, 9),
            a(69, 9),
            a(70, 24)
        ),
        "\n",
    );
    row(
        "Password in YAML",
        "  password: ",
        "hunter2hunter2".to_owned(),
        "\n",
    );
    row(
        "Password in JSON",
        "{\"password\": \"",
        "Tr0ub4dor&3".to_owned(),
        "\"}",
    );
    row(
        "Password in escaped JSON",
        "{\\\"password\\\": \\\"",
        "Tr0ub4dor&3".to_owned(),
        "\\\"}",
    );
    row(
        "Password in a file of variables",
        "DB_PASSWORD=",
        "s3cr3tpassw0rd".to_owned(),
        "\n",
    );
    row(
        "Password in quotes",
        "MYSQL_PASS='",
        "kV9#mQ2!xL".to_owned(),
        "'\n",
    );
    row(
        "Passphrase",
        "passphrase = \"",
        "w1nter-is-c0ming".to_owned(),
        "\"\n",
    );
    row(
        "Password in TOML",
        "passwd = \"",
        "P4ssw0rd99".to_owned(),
        "\"\n",
    );
    row(
        "Secret in code",
        "const CLIENT_SECRET = '",
        a(71, 32),
        "';\n",
    );
    row(
        "Secret in a map",
        "'client_secret' => '",
        hex(72, 40),
        "',\n",
    );
    row("Secret in Go", "apiKey := \"", a(73, 32), "\"\n");
    row("Token in YAML", "  auth_token: ", hex(74, 40), "\n");
    row(
        "Token in a query",
        "https://example.com/?access_token=",
        a(75, 40),
        " and so on",
    );
    row(
        "Django",
        "SECRET_KEY = '",
        format!("django-insecure-{}", a(76, 40)),
        "'\n",
    );
    row(
        "Password in a URL",
        "postgres://app:",
        "hunter22".to_owned(),
        "@db.example:5432/app",
    );
    row(
        "Password in an AMQP URL",
        "amqp://svc:",
        a(77, 20),
        "@mq/vhost\n",
    );
    row(
        "Token in a git URL",
        "https://x-access-token:",
        a(78, 40),
        "@git.example/a/b.git",
    );
    row("npmrc", "//registry.example/:_authToken=", a(79, 36), "\n");
    row(
        "UUID that is named a secret",
        "client_secret: ",
        format!(
            "{}-{}-4{}-a{}-{}",
            hex(80, 8),
            hex(81, 4),
            hex(82, 3),
            hex(83, 3),
            hex(84, 12)
        ),
        "\n",
    );
    rows
}

/// What is written every day and is no secret.
fn everyday() -> String {
    let mut text = String::new();
    for seed in 0..500 {
        let (sha1, sha256) = (random(seed, 40, HEX), random(seed, 64, HEX));
        let sha512 = random(seed, 86, BASE64);
        let uuid = [8, 4, 4, 4, 12]
            .map(|length| random(seed + 7, length, HEX))
            .join("-");
        let _ = writeln!(text, "      \"integrity\": \"sha512-{sha512}==\",");
        let _ = writeln!(
            text,
            "  resolved \"https://packages.example/a/-/a-1.0.{seed}.tgz#{sha1}\""
        );
        let _ = writeln!(text, "checksum = \"{sha256}\"");
        let _ = writeln!(
            text,
            "github.com/a/b v1.{seed}.0 h1:{}=",
            random(seed, 43, BASE64)
        );
        let _ = writeln!(text, "    --hash=sha256:{sha256} \\");
        let _ = writeln!(text, "commit {sha1}");
        let _ = writeln!(text, "image: example/app@sha256:{sha256}");
        let _ = writeln!(text, "request_id={uuid} trace={}", random(seed, 32, HEX));
        let _ = writeln!(
            text,
            "{{\"id\": \"{uuid}\", \"etag\": \"W/\\\"{sha1}\\\"\"}}"
        );
        let _ = writeln!(
            text,
            "<img src=\"data:image/png;base64,iVBORw0KGgo{sha512}\">"
        );
    }
    text.push_str(CODE);
    text
}

const CODE: &str = r#"
password: String,
password = getpass.getpass("Password: ")
let password = read_password()?;
password: process.env.DB_PASSWORD_2,
PASSWORD=${DB_PASSWORD}
PASSWORD=$1
password: "{{ vault_db_password1 }}"
password: <your password here>
password: ********
password: required
password_file: /run/secrets/db_password1
PGPASSFILE=/home/user1/.pgpass
PWD=/home/user1/src/app2
OLDPWD=/tmp/build-1234/target
passwd: files systemd
if password == other.password2 {
return self.passwords[0]
token: Token::Ident1,
let token = tokens[3];
token = lexer.next_token(2)
max_tokens: 200000
"max_tokens": 4096, "total_tokens": 123456789
token_type = Bearer
next_token = parser.peek_token_1
page_token: CAESBgoEMTIzNA9x7Qz
csrf_token = form.csrf_token.data
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased-2")
secret: false
secret = os.environ["SECRET_KEY"]
secrets: inherit
secret: ${{ secrets.NPM_TOKEN_2 }}
secretName: my-app-tls-2024
secretKeyRef: { name: app-secrets, key: api-key-1 }
api_key = config.get("api_key")
api_key_env: ANTHROPIC_API_KEY
api-key-header: X-Api-Key
apiKey: string;
access_key: AccessKey2,
private_key: ./keys/server1.pem
private_key_path = "/etc/ssl/private/server1.key"
credentials: include
credentials = Credentials.from_service_account_file("key1.json")
signing_key: &SigningKey,
encryption_key: aes_256_gcm_key_v2
http://localhost:8080/path@2
https://example.com:443/a/b@1.2.3
https://user@example.com/repo.git
postgres://user:password@localhost/db
postgres://postgres:postgres@localhost/db
mongodb://${USER}:${PASS}@host
ssh://git@example.com:2222/a/b.git
sk-learn sk-estimator-html-representation task-force-one-hundred
AKIA is how keys begin; ghp_ and xoxb- too; hf_hub_download(repo_id)
npm_config_registry=https://packages.example npm_lifecycle_event=test
SG.Foo.bar() hvs.secrets glc_ xai-org dapi
The token was refused: 401. The password: ask somebody. Secret: none of your business.
"#;

fn files_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && !matches!(name.to_str(), Some("target" | "redact" | "tests" | ".git")) {
            files_below(&path, found);
        } else if kind.is_file()
            && path.extension().is_some_and(|kind| {
                ["rs", "toml", "lock", "md", "json", "yaml", "yml"]
                    .iter()
                    .any(|it| kind == *it)
            })
        {
            found.push(path);
        }
    }
}

/// Lines in which something is taken for a secret.
fn hits(redactor: &Redactor, text: &str) -> Vec<String> {
    let shown = redactor.redact(text);
    let lines = shown.lines().filter(|line| {
        // Not those that speak of placeholders.
        line.match_indices("[redacted: ").any(|(at, open)| {
            let rest = &line[at + open.len()..];
            rest.split(']').next().is_some_and(|inner| {
                inner.rsplit(' ').next().is_some_and(|tag| {
                    tag.len() == 16 && tag.bytes().all(|byte| byte.is_ascii_hexdigit())
                })
            })
        })
    });
    lines.map(str::to_owned).collect()
}

#[test]
fn figures() {
    let redactor = Redactor::default();
    let secrets = secrets();
    let missed: Vec<&str> = secrets
        .iter()
        .filter(|(_, before, secret, behind)| {
            let shown = redactor
                .redact(&format!("{before}{secret}{behind}"))
                .into_owned();
            let left = secret
                .lines()
                .any(|line| line.len() >= 8 && shown.contains(line));
            left || !shown.contains("[redacted: ")
        })
        .map(|(what, ..)| *what)
        .collect();
    assert_eq!(
        missed,
        [""; 0],
        "of {} secrets these are not found",
        secrets.len()
    );

    let everyday = everyday();
    assert_eq!(hits(&redactor, &everyday), [""; 0]);

    // What this project is made of: code, documents, lock files, recorded answers.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for dir in ["crates", "docs", "schemas", "xtask", "examples"] {
        files_below(&root.join(dir), &mut files);
    }
    files.push(root.join("Cargo.lock"));
    let (mut lines, mut found) = (0, Vec::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        lines += text.lines().count();
        for hit in hits(&redactor, &text) {
            found.push(format!("{}: {}", file.display(), hit.trim()));
        }
    }
    assert!(
        found.len() * 10_000 <= lines,
        "{} of {lines} lines:\n{}",
        found.len(),
        found.join("\n")
    );
    println!(
        "{} of {} secrets; 0 of {} everyday lines; {} of {lines} lines of this project",
        secrets.len() - missed.len(),
        secrets.len(),
        everyday.lines().count(),
        found.len()
    );
}

/// Whatever a text is, it is looked at once for each alphabet: ten times as much takes about ten
/// times as long, which shows here as an end that comes at all.
#[test]
fn hostile_texts_cost_no_more_than_others() {
    let redactor = Redactor::default();
    for piece in [
        "sk-",
        "eyJ-",
        "eyJ-eyJ.eyJ",
        "token=",
        "password=a1",
        "://a:",
        "://",
        "xoxb-1",
        "glpat-.",
        "-----BEGIN RSA PRIVATE KEY-----AAAAAAAAAAAAAAAAAAAA",
        "-----BEGIN ",
        "authorization: bearer ",
        "secret\\",
        "SG.",
        "pwd: '",
    ] {
        let text = piece.repeat(512 * 1024 / piece.len());
        let begun = std::time::Instant::now();
        let _shown = redactor.redact(&text);
        println!("{piece:?}: {} ms", begun.elapsed().as_millis());
    }
}
