doctor={= doctor | sh =}
# look: sets bad (yes, no, unsure) and reason, one line of plain ASCII without quotes.
look() {
  said=$(mktemp) || exit 1
  trap 'rm -f "$said"' EXIT
  code=0
  timeout -k 5 {= limit | plain =} "$doctor" check --format json{% for word in want %} --want {= word | sh =}{% endfor %} >"$said" 2>/dev/null || code=$?
  case $code in
    0) bad=no ;;
    1) bad=yes ;;
    *) bad={= "yes" if unsure == "drain" else "unsure" =} ;;
  esac
  reason=$("${doctor%/*}/python" -I -c '
import json, re, sys
code = sys.argv[2]
try:
    report = json.load(open(sys.argv[1]))
    unseen = [item for item in report["findings"]
              if (item["outcome"], item["severity"]) == ("unknown", "error") and not item["blocked_by"]]
    found = report["next"] or {"id": unseen[0]["id"], "say": unseen[0]["message"]}
    text = found["id"] + ": " + found["say"]
except (OSError, ValueError, LookupError, TypeError):
    text = "no verdict, exit code " + code
print("doctor: " + re.sub(r"[^ A-Za-z0-9_.,:;()/@%+-]", " ", text)[:180])
' "$said" "$code") || reason="doctor: exit code $code"
}
